#pragma once

#include <cstdint>

#include "cuda/kernels/grid.h"
#include "cuda/kernels/pool2d_shape.h"

namespace trainer::cuda {

// Where windows lie, for kernels: along one axis. Two of them make an image.

struct PoolAxis {
  std::int64_t x, y, kernel, stride, padding;
};

/// From `begin` up to `end`.
struct PoolRange {
  std::int64_t begin, end;
};

/// Positions in x of the window of output `at`; `start`, the window's first, may lie in the padding.
struct PoolWindow : PoolRange {
  std::int64_t start;
};
__device__ __forceinline__ PoolWindow window_of(const PoolAxis& axis, std::int64_t at) {
  const std::int64_t start = at * axis.stride - axis.padding;
  const std::int64_t end = start + axis.kernel;
  return {{start < 0 ? 0 : start, end < axis.x ? end : axis.x}, start};
}

/// Outputs whose windows cover position `at` of x.
__device__ __forceinline__ PoolRange windows_over(const PoolAxis& axis, std::int64_t at) {
  const std::int64_t padded = at + axis.padding;
  const std::int64_t begin = padded < axis.kernel ? 0 : (padded - axis.kernel) / axis.stride + 1;
  const std::int64_t end = padded / axis.stride + 1;
  return {begin, end < axis.y ? end : axis.y};
}

struct PoolAxes {
  PoolAxis rows, columns;
};
inline PoolAxes pool_axes(const Pool2dShape& shape) {
  const auto axis = [&](std::size_t i) {
    return PoolAxis{shape.x[i], shape.y[i], shape.kernel[i], shape.stride[i], shape.padding[i]};
  };
  return {axis(0), axis(1)};
}

/// A pack of channels of one pixel.
struct PoolPixel {
  std::int64_t image, row, column, channel;
};
/// The number `index` of the packs of n channels of images of height × width pixels.
template <int n>
__device__ __forceinline__ PoolPixel pool_pixel(std::int64_t index, std::int64_t height, std::int64_t width,
                                                std::int64_t channels) {
  const std::int64_t num_packs = channels / n;
  const std::int64_t pixel = index / num_packs;
  const std::int64_t line = pixel / width;
  const std::int64_t image = line / height;
  return {image, line - image * height, pixel - line * width, (index - pixel * num_packs) * n};
}

inline constexpr int pool_threads = 256;
inline Dim3 pool_grid(std::int64_t num_packs) { return grid_of(num_blocks(num_packs, pool_threads)); }
__device__ __forceinline__ std::int64_t pool_index() {
  return static_cast<std::int64_t>(blockIdx.x) * pool_threads + threadIdx.x;
}

}  // namespace trainer::cuda
