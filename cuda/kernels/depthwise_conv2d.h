#pragma once

#include <array>
#include <cstdint>

#include "cuda/kernels/row_parts.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// A convolution of each channel alone: x (N, H, W, C), y (N, H', W', C · multiplier), whose channel k is made of
/// channel k / multiplier of x, weights (C · multiplier, kh, kw). Pairs are (height, width).
struct DepthwiseShape {
  std::int64_t images = 0, channels = 0, multiplier = 1;
  std::array<std::int64_t, 2> x{}, y{};
  std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};

  constexpr std::int64_t y_channels() const { return channels * multiplier; }
  constexpr std::int64_t taps() const { return kernel[0] * kernel[1]; }
  constexpr std::int64_t y_pixels() const { return images * y[0] * y[1]; }
};

inline constexpr std::int64_t most_depthwise_kernel = 5;

/// Kernels of up to 5 × 5, and images whose pixels, and what a kernel reaches beyond them, 31 bits count.
constexpr bool depthwise_conv2d_serves(const DepthwiseShape& shape) {
  constexpr std::int64_t most = 0x7FFFFFFF, most_of_axis = most / 32;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (shape.kernel[axis] > most_depthwise_kernel || shape.dilation[axis] > most_of_axis) return false;
    if (shape.padding[axis] > most_of_axis || shape.x[axis] > most_of_axis) return false;
    if (shape.y[axis] > most_of_axis / shape.stride[axis]) return false;
  }
  // Four columns make a strip, of which a line has the last one in part.
  const std::int64_t lines = shape.images * (shape.x[0] > shape.y[0] ? shape.x[0] : shape.y[0]);
  const std::int64_t columns = 4 + (shape.x[1] > shape.y[1] ? shape.x[1] : shape.y[1]);
  return lines <= most && columns <= most / (lines > 0 ? lines : 1) && shape.channels <= most / 32 / shape.multiplier;
}

/// y, with bias (null: none), then ReLU where `relu`. Bytes: x and y once (what windows share, from the cache),
/// weights. FLOPs: 2 · kh · kw an output.
void depthwise_conv2d_forward(DType type, const void* x, const void* weights, const void* bias, void* y, bool relu,
                              const DepthwiseShape& shape, Stream stream);

/// dx; every element is written. Bytes and FLOPs as forward.
void depthwise_conv2d_input_gradient(DType type, const void* dy, const void* weights, void* dx,
                                     const DepthwiseShape& shape, Stream stream);

/// How the pixels of y are cut into parts, each summed by blocks of its own.
constexpr RowParts depthwise_parts(const DepthwiseShape& shape) {
  constexpr std::int64_t least_pixels_per_part = 256;
  return parts_of_rows(shape.y_pixels(), least_pixels_per_part, most_row_parts(shape.y_channels()));
}
/// Of the weight gradient: one f32 for each part and weight.
constexpr std::int64_t depthwise_workspace_bytes(const DepthwiseShape& shape) {
  return 4 * depthwise_parts(shape).num_parts * shape.taps() * shape.y_channels();
}

/// dW: sums of f32 over parts of the pixels, added up in f64. Two launches. Bytes: x and dy once (beyond 3 × 3 once for
/// each row of the kernel), and the workspace twice. FLOPs: 2 · kh · kw an output.
void depthwise_conv2d_weight_gradient(DType type, const void* dy, const void* x, void* dweights,
                                      const DepthwiseShape& shape, void* workspace, Stream stream);

}  // namespace trainer::cuda
