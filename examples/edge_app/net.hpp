// A small MobileNet: a float body of depthwise and pointwise layers, a quantised head, ten classes.
#pragma once

#include <cstdint>

#include "graph.hpp"

namespace edge {

inline constexpr int kImageSize = 96;
inline constexpr int kClasses = 10;

struct Net {
    Graph graph;
    Floats* image = nullptr;          // [96][96][3], in [-1, 1]
    Floats* probabilities = nullptr;  // [10]
};

// Weights are random, from the seed alone, and scaled so that values keep their size from layer to layer.
Net make_net(std::uint64_t seed);

}  // namespace edge
