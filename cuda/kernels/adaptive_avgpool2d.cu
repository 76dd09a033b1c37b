#include "cuda/kernels/adaptive_avgpool2d.h"

#include "cuda/kernels/resize_launch.cuh"

namespace trainer::cuda {

namespace {

/// Along one axis.
struct AdaptiveAxis {
  int x, y;
};
struct AdaptiveAxes {
  AdaptiveAxis rows, columns;
};
AdaptiveAxes adaptive_axes(const ResizedShape& shape) {
  const auto axis = [&](std::size_t i) { return AdaptiveAxis{pool_int(shape.x[i]), pool_int(shape.y[i])}; };
  return {axis(0), axis(1)};
}

// A product of the two sizes and one of them more is below 2^32.
__device__ __forceinline__ PoolRange adaptive_window(int in, int out, int at) {
  const auto size = static_cast<unsigned>(in), parts = static_cast<unsigned>(out), part = static_cast<unsigned>(at);
  return {static_cast<int>(part * size / parts), static_cast<int>(((part + 1) * size + parts - 1) / parts)};
}

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    adaptive_avgpool2d_forward_kernel(const T* __restrict__ x, T* __restrict__ y, AdaptiveAxes axes, int channels,
                                      unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.y, axes.columns.y, channels);
  const PoolRange rows = adaptive_window(axes.rows.x, axes.rows.y, at.row);
  const PoolRange columns = adaptive_window(axes.columns.x, axes.columns.y, at.column);
  Pack<float, n> sum{};
  for (int row = rows.begin; row < rows.end; ++row) {
    const int line = (at.image * axes.rows.x + row) * axes.columns.x;
    for (int column = columns.begin; column < columns.end; ++column) {
      const Pack<float, n> values = load_floats<n>(x + std::int64_t{line + column} * channels + at.channel);
      for (int i = 0; i < n; ++i) sum.values[i] += values.values[i];
    }
  }
  const float factor = 1.0f / static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
  for (int i = 0; i < n; ++i) sum.values[i] *= factor;
  store_floats(y + std::int64_t{index} * n, sum);
}

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    adaptive_avgpool2d_backward_kernel(const T* __restrict__ dy, T* __restrict__ dx, AdaptiveAxes axes, int channels,
                                       unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.x, axes.columns.x, channels);
  // The windows over an element of x are what its own window over y would be.
  const PoolRange rows = adaptive_window(axes.rows.y, axes.rows.x, at.row);
  const PoolRange columns = adaptive_window(axes.columns.y, axes.columns.x, at.column);
  Pack<float, n> sum{};
  for (int row = rows.begin; row < rows.end; ++row) {
    const PoolRange its_rows = adaptive_window(axes.rows.x, axes.rows.y, row);
    const int line = (at.image * axes.rows.y + row) * axes.columns.y;
    for (int column = columns.begin; column < columns.end; ++column) {
      const PoolRange its_columns = adaptive_window(axes.columns.x, axes.columns.y, column);
      const float count = static_cast<float>((its_rows.end - its_rows.begin) * (its_columns.end - its_columns.begin));
      const float factor = 1.0f / count;
      const Pack<float, n> gradients = load_floats<n>(dy + std::int64_t{line + column} * channels + at.channel);
      for (int i = 0; i < n; ++i) sum.values[i] += gradients.values[i] * factor;
    }
  }
  store_floats(dx + std::int64_t{index} * n, sum);
}

}  // namespace

void adaptive_avgpool2d_forward(DType type, const void* x, void* y, const ResizedShape& shape, Stream stream) {
  start_resize(type, x, y, shape, ResizeDirection::forward, [&](auto* from, auto* to, auto width, unsigned num_packs) {
    using T = std::remove_pointer_t<decltype(to)>;
    launch(adaptive_avgpool2d_forward_kernel<T, decltype(width)::value>, pool_grid(num_packs), {pool_threads}, stream,
           from, to, adaptive_axes(shape), pool_int(shape.channels), num_packs);
  });
}

void adaptive_avgpool2d_backward(DType type, const void* dy, void* dx, const ResizedShape& shape, Stream stream) {
  start_resize(type, dy, dx, shape, ResizeDirection::backward,
               [&](auto* from, auto* to, auto width, unsigned num_packs) {
                 using T = std::remove_pointer_t<decltype(to)>;
                 launch(adaptive_avgpool2d_backward_kernel<T, decltype(width)::value>, pool_grid(num_packs),
                        {pool_threads}, stream, from, to, adaptive_axes(shape), pool_int(shape.channels), num_packs);
               });
}

}  // namespace trainer::cuda
