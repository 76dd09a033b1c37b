#include "cuda/kernels/maxpool2d.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/pool2d_windows.cuh"

namespace trainer::cuda {

namespace {

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    maxpool2d_forward_kernel(const T* __restrict__ x, T* __restrict__ y, std::uint8_t* __restrict__ indices, bool relu,
                             PoolAxes axes, int channels, unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.y, axes.columns.y, channels);
  const PoolWindow rows = window_of(axes.rows, at.row);
  const PoolWindow columns = window_of(axes.columns, at.column);
  // A window never lies in the padding alone, so its first element inside stands in for what is smaller than all.
  Pack<float, n> best{};
  int positions[n] = {};
  bool first = true;
  for (int row = rows.begin; row < rows.end; ++row) {
    const int line = (at.image * axes.rows.x + row) * axes.columns.x;
    for (int column = columns.begin; column < columns.end; ++column) {
      const Pack<float, n> values = load_floats<n>(x + std::int64_t{line + column} * channels + at.channel);
      const int position = (row - rows.start) * axes.columns.kernel + (column - columns.start);
      for (int i = 0; i < n; ++i) {
        const float value = values.values[i];
        const float largest = best.values[i];
        if (first || value > largest || (value != value && largest == largest)) {
          best.values[i] = value;
          positions[i] = position;
        }
      }
      first = false;
    }
  }
  if (relu) {
    for (int i = 0; i < n; ++i) {
      if (!(best.values[i] > 0)) positions[i] = no_position;
      if (best.values[i] < 0) best.values[i] = 0;
    }
  }
  store_floats(y + std::int64_t{index} * n, best);
  if (indices == nullptr) return;
  Pack<std::uint8_t, n> bytes;
  for (int i = 0; i < n; ++i) bytes.values[i] = static_cast<std::uint8_t>(positions[i]);
  store_pack(indices + std::int64_t{index} * n, bytes);
}

// By what each element of x gathers, in the order of the windows: nothing is added atomically or written twice.
template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    maxpool2d_backward_kernel(const T* __restrict__ dy, const std::uint8_t* __restrict__ indices, T* __restrict__ dx,
                              PoolAxes axes, int channels, unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.x, axes.columns.x, channels);
  const PoolRange rows = windows_over(axes.rows, at.row);
  const PoolRange columns = windows_over(axes.columns, at.column);
  Pack<float, n> sum{};
  for (int row = rows.begin; row < rows.end; ++row) {
    const int row_in_window = at.row - (row * axes.rows.stride - axes.rows.padding);
    const int line = (at.image * axes.rows.y + row) * axes.columns.y;
    for (int column = columns.begin; column < columns.end; ++column) {
      const int column_in_window = at.column - (column * axes.columns.stride - axes.columns.padding);
      const int position = row_in_window * axes.columns.kernel + column_in_window;
      const std::int64_t from = std::int64_t{line + column} * channels + at.channel;
      const auto taken = load_pack<n>(indices + from);
      const Pack<float, n> gradients = load_floats<n>(dy + from);
      for (int i = 0; i < n; ++i) {
        if (static_cast<int>(taken.values[i]) == position) sum.values[i] += gradients.values[i];
      }
    }
  }
  store_floats(dx + std::int64_t{index} * n, sum);
}

}  // namespace

void maxpool2d_forward(DType type, const void* x, void* y, std::uint8_t* indices, bool relu, const Pool2dShape& shape,
                       Stream stream) {
  if (shape.y_elements() == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {x, y, indices}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      for_each_image_range(shape, n, most_pool_packs, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t x_at = first * shape.x[0] * shape.x[1] * shape.channels;
        const std::int64_t y_at = first * shape.y[0] * shape.y[1] * shape.channels;
        const int num_packs = pool_int(count * shape.y[0] * shape.y[1] * shape.channels / n);
        launch(maxpool2d_forward_kernel<T, n>, pool_grid(num_packs), {pool_threads}, stream,
               static_cast<const T*>(x) + x_at, static_cast<T*>(y) + y_at,
               indices == nullptr ? nullptr : indices + y_at, relu, pool_axes(shape), pool_int(shape.channels),
               static_cast<unsigned>(num_packs));
      });
    });
  });
}

void maxpool2d_backward(DType type, const void* dy, const std::uint8_t* indices, void* dx, const Pool2dShape& shape,
                        Stream stream) {
  if (shape.x_elements() == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {dy, indices, dx}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      for_each_image_range(shape, n, most_pool_packs, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t x_at = first * shape.x[0] * shape.x[1] * shape.channels;
        const std::int64_t y_at = first * shape.y[0] * shape.y[1] * shape.channels;
        const int num_packs = pool_int(count * shape.x[0] * shape.x[1] * shape.channels / n);
        launch(maxpool2d_backward_kernel<T, n>, pool_grid(num_packs), {pool_threads}, stream,
               static_cast<const T*>(dy) + y_at, indices == nullptr ? nullptr : indices + y_at,
               static_cast<T*>(dx) + x_at, pool_axes(shape), pool_int(shape.channels),
               static_cast<unsigned>(num_packs));
      });
    });
  });
}

}  // namespace trainer::cuda
