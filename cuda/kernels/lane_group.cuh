#pragma once

#include <limits>

#include "cuda/launch/launch.h"

namespace trainer::cuda {

inline constexpr float below_all = -std::numeric_limits<float>::infinity();

/// Threads of a warp that have a row together: `lanes`, a power of two.
struct LaneGroup {
  int lanes;

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % lanes; }
  template <typename V>
  __device__ V sum(V value) const {
    for (int mask = lanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    return value;
  }
  __device__ float max(float value) const {
    for (int mask = lanes / 2; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
    return value;
  }
};

/// As many lanes for a row of so many columns that each has about four of them.
constexpr int lanes_for(std::int64_t columns) {
  int lanes = 1;
  while (lanes < warp_size && 4 * lanes < columns) lanes *= 2;
  return lanes;
}

}  // namespace trainer::cuda
