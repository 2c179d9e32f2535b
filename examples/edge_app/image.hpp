// Images in: drawn, or read from a binary PPM file.
#pragma once

#include <cstdint>
#include <string>

#include "graph.hpp"

namespace edge {

// Coloured discs on noise, a different picture for each seed; values in [-1, 1].
void draw_image(std::uint64_t seed, Floats& image);

// The nearest pixels of a P6 file with 8-bit samples. Throws std::runtime_error that names the file and what is wrong.
void load_ppm(const std::string& path, Floats& image);

}  // namespace edge
