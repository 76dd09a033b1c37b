#pragma once

#include <cstdint>

#include "cuda/kernels/grid.h"
#include "cuda/kernels/pool2d_shape.h"

namespace trainer::cuda {

// Where windows lie, for kernels: along one axis. Two of them make an image.

struct PoolAxis {
  int x, y, kernel, stride, padding;
};

/// From `begin` up to `end`.
struct PoolRange {
  int begin, end;
};

/// Positions in x of the window of output `at`; `start`, the window's first, may lie in the padding.
struct PoolWindow : PoolRange {
  int start;
};
__device__ __forceinline__ PoolWindow window_of(const PoolAxis& axis, int at) {
  const int start = at * axis.stride - axis.padding;
  const int end = start + axis.kernel;
  return {{start < 0 ? 0 : start, end < axis.x ? end : axis.x}, start};
}

/// Outputs whose windows cover position `at` of x.
__device__ __forceinline__ PoolRange windows_over(const PoolAxis& axis, int at) {
  const int padded = at + axis.padding;
  const int begin = padded < axis.kernel ? 0 : (padded - axis.kernel) / axis.stride + 1;
  const int end = padded / axis.stride + 1;
  return {begin, end < axis.y ? end : axis.y};
}

inline int pool_int(std::int64_t value) {
  require_internal(value <= most_pool_packs, "an image is pooled by numbers below 2^31");
  return static_cast<int>(value);
}

struct PoolAxes {
  PoolAxis rows, columns;
};
inline PoolAxes pool_axes(const Pool2dShape& shape) {
  const auto axis = [&](std::size_t i) {
    return PoolAxis{pool_int(shape.x[i]), pool_int(shape.y[i]), pool_int(shape.kernel[i]), pool_int(shape.stride[i]),
                    pool_int(shape.padding[i])};
  };
  return {axis(0), axis(1)};
}

/// A pack of channels of one pixel.
struct PoolPixel {
  int image, row, column, channel;
};
/// The number `index` of the packs of n channels of images of height × width pixels. 64 bits would be divided by a
/// subroutine.
template <int n>
__device__ __forceinline__ PoolPixel pool_pixel(unsigned index, int height, int width, int channels) {
  const unsigned num_packs = static_cast<unsigned>(channels) / n;
  const unsigned pixel = index / num_packs;
  const unsigned line = pixel / static_cast<unsigned>(width);
  const unsigned image = line / static_cast<unsigned>(height);
  return {static_cast<int>(image), static_cast<int>(line - image * static_cast<unsigned>(height)),
          static_cast<int>(pixel - line * static_cast<unsigned>(width)),
          static_cast<int>((index - pixel * num_packs) * n)};
}

inline constexpr int pool_threads = 256;
inline Dim3 pool_grid(std::int64_t num_packs) { return grid_of(num_blocks(num_packs, pool_threads)); }
__device__ __forceinline__ unsigned pool_index() { return blockIdx.x * pool_threads + threadIdx.x; }

}  // namespace trainer::cuda
