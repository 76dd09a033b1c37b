#include "cuda/kernels/upsample.h"

#include "cuda/kernels/resize_launch.cuh"

namespace trainer::cuda {

namespace {

/// Along one axis. An output lies at ratio · output, or at max(0, ratio · (output + ½) − ½) where `half`.
struct UpsampleAxis {
  int x, y;
  float ratio, inverse;
  bool half;
};
struct UpsampleAxes {
  UpsampleAxis rows, columns;
};

UpsampleAxes upsample_axes(const ResizedShape& shape, const UpsampleOptions& options) {
  const auto axis = [&](std::size_t i) {
    const int x = pool_int(shape.x[i]), y = pool_int(shape.y[i]);
    const std::int64_t scale = options.scale[i];
    float ratio = scale > 0 ? static_cast<float>(1.0 / static_cast<double>(scale))
                            : static_cast<float>(x) / static_cast<float>(y);
    const bool by_corners = options.bilinear && options.align_corners;
    if (by_corners) ratio = y > 1 ? static_cast<float>(x - 1) / static_cast<float>(y - 1) : 0.0f;
    return UpsampleAxis{x, y, ratio, ratio > 0 ? 1.0f / ratio : 0.0f, options.bilinear && !by_corners};
  };
  return {axis(0), axis(1)};
}

/// Where an output lies, from 0 to the last input.
__device__ __forceinline__ float position_of(const UpsampleAxis& axis, int output) {
  const auto at = static_cast<float>(output);
  const float position = axis.half ? axis.ratio * (at + 0.5f) - 0.5f : axis.ratio * at;
  const auto last = static_cast<float>(axis.x - 1);
  return position < 0 ? 0.0f : position < last ? position : last;
}
__device__ __forceinline__ int nearest_input(const UpsampleAxis& axis, int output) {
  return static_cast<int>(position_of(axis, output));
}

/// The first output whose nearest input is `input` or behind it. The guess is off by rounding alone.
__device__ __forceinline__ int first_output(const UpsampleAxis& axis, int input) {
  if (input <= 0) return 0;
  if (input >= axis.x) return axis.y;
  const float guess = static_cast<float>(input) * axis.inverse;
  int output = guess < static_cast<float>(axis.y) ? static_cast<int>(guess) : axis.y;
  while (output > 0 && nearest_input(axis, output - 1) >= input) --output;
  while (output < axis.y && nearest_input(axis, output) < input) ++output;
  return output;
}

/// Outputs that lie less than one input away from `input`, and up to two more at each end.
__device__ __forceinline__ PoolRange outputs_around(const UpsampleAxis& axis, int input) {
  if (axis.inverse == 0) return {0, axis.y};
  const float shift = axis.half ? 0.5f : 0.0f;
  const float begin = (static_cast<float>(input - 1) + shift) * axis.inverse - shift - 1;
  const float end = (static_cast<float>(input + 1) + shift) * axis.inverse - shift + 2;
  const bool is_last = input + 1 >= axis.x || end >= static_cast<float>(axis.y);
  return {begin > 0 ? static_cast<int>(begin) : 0, is_last ? axis.y : static_cast<int>(end)};
}
/// The part of an output that is of `input`; 0 or less: none.
__device__ __forceinline__ float share_of(const UpsampleAxis& axis, int output, int input) {
  return 1.0f - fabsf(position_of(axis, output) - static_cast<float>(input));
}

template <typename T, int n, bool bilinear>
__global__ void __launch_bounds__(pool_threads)
    upsample_forward_kernel(const T* __restrict__ x, T* __restrict__ y, UpsampleAxes axes, int channels,
                            unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.y, axes.columns.y, channels);
  const float row_position = position_of(axes.rows, at.row), column_position = position_of(axes.columns, at.column);
  const int row = static_cast<int>(row_position), column = static_cast<int>(column_position);
  const int image = at.image * axes.rows.x;
  const auto pixel = [&](int h, int w) {
    return x + std::int64_t{(image + h) * axes.columns.x + w} * channels + at.channel;
  };
  if (!bilinear) {
    store_pack(y + std::int64_t{index} * n, load_pack<n>(pixel(row, column)));
    return;
  }
  const int next_row = row + 1 < axes.rows.x ? row + 1 : row,
            next_column = column + 1 < axes.columns.x ? column + 1 : column;
  const Pack<float, n> upper_left = load_floats<n>(pixel(row, column));
  const Pack<float, n> upper_right = load_floats<n>(pixel(row, next_column));
  const Pack<float, n> lower_left = load_floats<n>(pixel(next_row, column));
  const Pack<float, n> lower_right = load_floats<n>(pixel(next_row, next_column));
  const float below = row_position - static_cast<float>(row), above = 1.0f - below;
  const float right = column_position - static_cast<float>(column), left = 1.0f - right;
  Pack<float, n> result;
  for (int i = 0; i < n; ++i) {
    result.values[i] = above * (left * upper_left.values[i] + right * upper_right.values[i]) +
                       below * (left * lower_left.values[i] + right * lower_right.values[i]);
  }
  store_floats(y + std::int64_t{index} * n, result);
}

// By what each element of x gathers, in the order of y: nothing is added atomically or written twice.
template <typename T, int n, bool bilinear>
__global__ void __launch_bounds__(pool_threads)
    upsample_backward_kernel(const T* __restrict__ dy, T* __restrict__ dx, UpsampleAxes axes, int channels,
                             unsigned num_packs) {
  wait_for_earlier_kernels();
  const unsigned index = pool_index();
  if (index >= num_packs) return;
  const PoolPixel at = pool_pixel<n>(index, axes.rows.x, axes.columns.x, channels);
  PoolRange rows, columns;
  if (bilinear) {
    rows = outputs_around(axes.rows, at.row);
    columns = outputs_around(axes.columns, at.column);
  } else {
    rows = {first_output(axes.rows, at.row), first_output(axes.rows, at.row + 1)};
    columns = {first_output(axes.columns, at.column), first_output(axes.columns, at.column + 1)};
  }
  Pack<float, n> sum{};
  for (int row = rows.begin; row < rows.end; ++row) {
    const float row_share = bilinear ? share_of(axes.rows, row, at.row) : 1.0f;
    if (row_share <= 0) continue;
    const int line = (at.image * axes.rows.y + row) * axes.columns.y;
    for (int column = columns.begin; column < columns.end; ++column) {
      const float column_share = bilinear ? share_of(axes.columns, column, at.column) : 1.0f;
      if (column_share <= 0) continue;
      const float share = row_share * column_share;
      const Pack<float, n> gradients = load_floats<n>(dy + std::int64_t{line + column} * channels + at.channel);
      for (int i = 0; i < n; ++i) sum.values[i] += gradients.values[i] * share;
    }
  }
  store_floats(dx + std::int64_t{index} * n, sum);
}

}  // namespace

void upsample_forward(DType type, const void* x, void* y, const ResizedShape& shape, const UpsampleOptions& options,
                      Stream stream) {
  start_resize(type, x, y, shape, ResizeDirection::forward, [&](auto* from, auto* to, auto width, unsigned num_packs) {
    using T = std::remove_pointer_t<decltype(to)>;
    constexpr int n = decltype(width)::value;
    launch(options.bilinear ? upsample_forward_kernel<T, n, true> : upsample_forward_kernel<T, n, false>,
           pool_grid(num_packs), {pool_threads}, stream, from, to, upsample_axes(shape, options),
           pool_int(shape.channels), num_packs);
  });
}

void upsample_backward(DType type, const void* dy, void* dx, const ResizedShape& shape, const UpsampleOptions& options,
                       Stream stream) {
  start_resize(type, dy, dx, shape, ResizeDirection::backward,
               [&](auto* from, auto* to, auto width, unsigned num_packs) {
                 using T = std::remove_pointer_t<decltype(to)>;
                 constexpr int n = decltype(width)::value;
                 launch(options.bilinear ? upsample_backward_kernel<T, n, true> : upsample_backward_kernel<T, n, false>,
                        pool_grid(num_packs), {pool_threads}, stream, from, to, upsample_axes(shape, options),
                        pool_int(shape.channels), num_packs);
               });
}

}  // namespace trainer::cuda
