#pragma once

#include <algorithm>
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

/// Kernels of pools count packs of channels by 32 bits.
inline constexpr std::int64_t most_pool_packs = 0x7FFFFFFF;

/// Calls function(first, count) for ranges of the images, together all of them: as few as leave none with more than
/// `most_packs` packs of n channels in x or y, or with one image where that alone has more.
template <typename Shape, typename Function>
void for_each_image_range(const Shape& shape, int n, std::int64_t most_packs, Function&& function) {
  const std::int64_t pixels = std::max(shape.x[0] * shape.x[1], shape.y[0] * shape.y[1]);
  const std::int64_t most_images =
      std::max<std::int64_t>(1, most_packs / std::max<std::int64_t>(1, pixels * shape.channels / n));
  for (std::int64_t first = 0; first < shape.images; first += most_images) {
    function(first, std::min(most_images, shape.images - first));
  }
}

}  // namespace trainer::cuda
