// The same numbers on every machine: SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators").
#pragma once

#include <cstdint>

namespace edge {

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    // In [-1, 1), a multiple of 2^-23: exact in a float.
    float unit() { return float(std::int32_t(next() >> 40) - (1 << 23)) * (1.0f / (1 << 23)); }
    int in_range(int low, int high) { return low + int(next() % std::uint64_t(high - low + 1)); }

  private:
    std::uint64_t state_;
};

}  // namespace edge
