#include "cuda/kernels/avgpool2d.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/pool2d_windows.cuh"

namespace trainer::cuda {

namespace {

/// What a window counts along one axis.
__device__ __forceinline__ int extent_of(const PoolAxis& axis, const PoolWindow& window, bool count_include_pad) {
  if (!count_include_pad) return window.end - window.begin;
  const int end = window.start + axis.kernel;
  const int padded = axis.x + axis.padding;
  return (end < padded ? end : padded) - window.start;
}

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    avgpool2d_forward_kernel(const T* __restrict__ x, T* __restrict__ y, PoolAxes axes, bool count_include_pad,
                             int channels, unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.y, axes.columns.y, channels);
  const PoolWindow rows = window_of(axes.rows, at.row);
  const PoolWindow columns = window_of(axes.columns, at.column);
  Pack<float, n> sum{};
  for (int row = rows.begin; row < rows.end; ++row) {
    const int line = (at.image * axes.rows.x + row) * axes.columns.x;
    for (int column = columns.begin; column < columns.end; ++column) {
      const Pack<float, n> values = load_floats<n>(x + std::int64_t{line + column} * channels + at.channel);
      for (int i = 0; i < n; ++i) sum.values[i] += values.values[i];
    }
  }
  const float factor = 1.0f / static_cast<float>(extent_of(axes.rows, rows, count_include_pad) *
                                                 extent_of(axes.columns, columns, count_include_pad));
  for (int i = 0; i < n; ++i) sum.values[i] *= factor;
  store_floats(y + std::int64_t{index} * n, sum);
}

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    avgpool2d_backward_kernel(const T* __restrict__ dy, T* __restrict__ dx, PoolAxes axes, bool count_include_pad,
                              int channels, unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.x, axes.columns.x, channels);
  const PoolRange rows = windows_over(axes.rows, at.row);
  const PoolRange columns = windows_over(axes.columns, at.column);
  Pack<float, n> sum{};
  for (int row = rows.begin; row < rows.end; ++row) {
    const int height = extent_of(axes.rows, window_of(axes.rows, row), count_include_pad);
    const int line = (at.image * axes.rows.y + row) * axes.columns.y;
    for (int column = columns.begin; column < columns.end; ++column) {
      const int width = extent_of(axes.columns, window_of(axes.columns, column), count_include_pad);
      const float factor = 1.0f / static_cast<float>(height * width);
      const Pack<float, n> gradients = load_floats<n>(dy + std::int64_t{line + column} * channels + at.channel);
      for (int i = 0; i < n; ++i) sum.values[i] += gradients.values[i] * factor;
    }
  }
  store_floats(dx + std::int64_t{index} * n, sum);
}

}  // namespace

void avgpool2d_forward(DType type, const void* x, void* y, const Pool2dShape& shape, bool count_include_pad,
                       Stream stream) {
  if (shape.y_elements() == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {x, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      for_each_image_range(shape, n, most_pool_packs, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t x_at = first * shape.x[0] * shape.x[1] * shape.channels;
        const std::int64_t y_at = first * shape.y[0] * shape.y[1] * shape.channels;
        const int num_packs = pool_int(count * shape.y[0] * shape.y[1] * shape.channels / n);
        launch(avgpool2d_forward_kernel<T, n>, pool_grid(num_packs), {pool_threads}, stream,
               static_cast<const T*>(x) + x_at, static_cast<T*>(y) + y_at, pool_axes(shape), count_include_pad,
               pool_int(shape.channels), static_cast<unsigned>(num_packs));
      });
    });
  });
}

void avgpool2d_backward(DType type, const void* dy, void* dx, const Pool2dShape& shape, bool count_include_pad,
                        Stream stream) {
  if (shape.x_elements() == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {dy, dx}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      for_each_image_range(shape, n, most_pool_packs, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t x_at = first * shape.x[0] * shape.x[1] * shape.channels;
        const std::int64_t y_at = first * shape.y[0] * shape.y[1] * shape.channels;
        const int num_packs = pool_int(count * shape.x[0] * shape.x[1] * shape.channels / n);
        launch(avgpool2d_backward_kernel<T, n>, pool_grid(num_packs), {pool_threads}, stream,
               static_cast<const T*>(dy) + y_at, static_cast<T*>(dx) + x_at, pool_axes(shape), count_include_pad,
               pool_int(shape.channels), static_cast<unsigned>(num_packs));
      });
    });
  });
}

}  // namespace trainer::cuda
