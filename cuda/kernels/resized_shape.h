#pragma once

#include <array>
#include <cstdint>

namespace trainer::cuda {

/// Images x (N, H, W, C) and y (N, H', W', C) that are made of each other. Pairs are (height, width).
struct ResizedShape {
  std::int64_t images = 0, channels = 0;
  std::array<std::int64_t, 2> x{}, y{};

  std::int64_t x_elements() const { return images * x[0] * x[1] * channels; }
  std::int64_t y_elements() const { return images * y[0] * y[1] * channels; }
};

}  // namespace trainer::cuda
