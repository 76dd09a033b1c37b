#pragma once

#include <array>
#include <cstdint>

namespace trainer::cuda {

/// A pooling of x (N, H, W, C) to y (N, H', W', C) by windows of at most 16 × 16 where indices are kept. Pairs are
/// (height, width).
struct Pool2dShape {
  std::int64_t images = 0, channels = 0;
  std::array<std::int64_t, 2> x{}, y{};
  std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1}, padding{0, 0};

  std::int64_t x_elements() const { return images * x[0] * x[1] * channels; }
  std::int64_t y_elements() const { return images * y[0] * y[1] * channels; }
};

}  // namespace trainer::cuda
