#include "cuda/kernels/pad.h"

#include "cuda/kernels/resize_launch.cuh"

namespace trainer::cuda {

namespace {

/// Along one axis.
struct PadAxis {
  int x, y, before;
};
struct PadAxes {
  PadAxis rows, columns;
};
PadAxes pad_axes(const ResizedShape& shape, const PadOptions& options) {
  const auto axis = [&](std::size_t i) {
    return PadAxis{pool_int(shape.x[i]), pool_int(shape.y[i]), pool_int(options.before[i])};
  };
  return {axis(0), axis(1)};
}

/// The input that an output takes; −1: none.
__device__ __forceinline__ int padded_from(const PadAxis& axis, PadBorder border, int output) {
  const int at = output - axis.before;
  if (at >= 0 && at < axis.x) return at;
  if (border == PadBorder::number) return -1;
  if (border == PadBorder::edge) return at < 0 ? 0 : axis.x - 1;
  return at < 0 ? -at : 2 * (axis.x - 1) - at;
}

/// The outputs that take one input: a range, and those mirrored at either edge, −1 where there is none.
struct PadTakers {
  int begin, end, mirrored_before, mirrored_behind;

  __device__ __forceinline__ int count() const {
    return end - begin + (mirrored_before >= 0 ? 1 : 0) + (mirrored_behind >= 0 ? 1 : 0);
  }
  __device__ __forceinline__ int at(int i) const {
    if (i < end - begin) return begin + i;
    return i == end - begin && mirrored_before >= 0 ? mirrored_before : mirrored_behind;
  }
};
__device__ __forceinline__ PadTakers takers_of(const PadAxis& axis, PadBorder border, int input) {
  PadTakers takers{input + axis.before, input + axis.before + 1, -1, -1};
  if (border == PadBorder::edge) {
    if (input == 0) takers.begin = 0;
    if (input == axis.x - 1) takers.end = axis.y;
  } else if (border == PadBorder::reflection) {
    if (input > 0) takers.mirrored_before = axis.before - input;
    const int behind = axis.before + 2 * (axis.x - 1) - input;
    if (input < axis.x - 1 && behind < axis.y) takers.mirrored_behind = behind;
  }
  return takers;
}

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    pad_forward_kernel(const T* __restrict__ x, T* __restrict__ y, PadAxes axes, PadBorder border, float value,
                       int channels, unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.y, axes.columns.y, channels);
  const int row = padded_from(axes.rows, border, at.row), column = padded_from(axes.columns, border, at.column);
  T* const to = y + std::int64_t{index} * n;
  if (row < 0 || column < 0) {
    Pack<float, n> border_values;
    for (int i = 0; i < n; ++i) border_values.values[i] = value;
    store_floats(to, border_values);
    return;
  }
  const int pixel = (at.image * axes.rows.x + row) * axes.columns.x + column;
  store_pack(to, load_pack<n>(x + std::int64_t{pixel} * channels + at.channel));
}

// By what each element of x gathers: nothing is added atomically or written twice.
template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    pad_backward_kernel(const T* __restrict__ dy, T* __restrict__ dx, PadAxes axes, PadBorder border, int channels,
                        unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.x, axes.columns.x, channels);
  const PadTakers rows = takers_of(axes.rows, border, at.row), columns = takers_of(axes.columns, border, at.column);
  Pack<float, n> sum{};
  for (int i = 0; i < rows.count(); ++i) {
    const int line = (at.image * axes.rows.y + rows.at(i)) * axes.columns.y;
    for (int j = 0; j < columns.count(); ++j) {
      const std::int64_t pixel = line + columns.at(j);
      const Pack<float, n> gradients = load_floats<n>(dy + pixel * channels + at.channel);
      for (int c = 0; c < n; ++c) sum.values[c] += gradients.values[c];
    }
  }
  store_floats(dx + std::int64_t{index} * n, sum);
}

}  // namespace

void pad_forward(DType type, const void* x, void* y, const ResizedShape& shape, const PadOptions& options,
                 Stream stream) {
  start_resize(type, x, y, shape, ResizeDirection::forward, [&](auto* from, auto* to, auto width, unsigned num_packs) {
    using T = std::remove_pointer_t<decltype(to)>;
    launch(pad_forward_kernel<T, decltype(width)::value>, pool_grid(num_packs), {pool_threads}, stream, from, to,
           pad_axes(shape, options), options.border, options.value, pool_int(shape.channels), num_packs);
  });
}

void pad_backward(DType type, const void* dy, void* dx, const ResizedShape& shape, const PadOptions& options,
                  Stream stream) {
  start_resize(type, dy, dx, shape, ResizeDirection::backward,
               [&](auto* from, auto* to, auto width, unsigned num_packs) {
                 using T = std::remove_pointer_t<decltype(to)>;
                 launch(pad_backward_kernel<T, decltype(width)::value>, pool_grid(num_packs), {pool_threads}, stream,
                        from, to, pad_axes(shape, options), options.border, pool_int(shape.channels), num_packs);
               });
}

}  // namespace trainer::cuda
