#pragma once

#include <array>
#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Window of maxpool2d and avgpool2d, (height, width).
struct Pool2dAttributes {
  std::array<std::int64_t, 2> kernel{2, 2}, stride{2, 2}, padding{0, 0};
  bool ceil_mode = false;         ///< rounds the output's size up, by windows that reach beyond the padding
  bool count_include_pad = true;  ///< avgpool2d: divide by the whole window, padding too
  bool keep_indices = true;       ///< maxpool2d: false in evaluation, where there is no second output
  bool relu = false;              ///< maxpool2d: y goes through ReLU (set by the fusion pass)
  friend bool operator==(const Pool2dAttributes&, const Pool2dAttributes&) = default;
};

/// In a byte that otherwise tells a position; so ReLU is for windows of at most 255 elements.
inline constexpr std::uint8_t no_position = 255;

/// Output shape of pooling x (N, H, W, C), rounding as PyTorch does: with ceil_mode up, but for a window that would
/// begin behind the image and its padding before it. Throws ShapeError where the window does not fit or the padding is
/// more than half of it.
Shape pooled_shape(const Shape& x, const Pool2dAttributes& attributes);

/// inputs: x (N, H, W, C); outputs: y (N, H', W', C)[, indices u8 of y's shape]: the position of the first largest
/// element in its window, row by row (kernel ≤ 16×16, so that it fits a byte). With ReLU it is `no_position` where y is
/// not above 0, and the gradient goes nowhere (Note [ReLU into pooling] in engine/program/relu_fusion.h).
Op maxpool2d_op(const TensorType& x, const Pool2dAttributes& attributes);
/// inputs: dy, indices; outputs: dx.
Op maxpool2d_backward_op(const Op& maxpool2d);

}  // namespace trainer
