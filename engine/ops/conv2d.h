#pragma once

#include <array>
#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Cross-correlation as PyTorch's Conv2d, then ReLU where `relu` (set by the fusion pass).
struct Conv2dAttributes {
  std::int64_t out = 0;
  std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};  ///< (height, width)
  std::int64_t groups = 1;
  bool bias = true;
  bool relu = false;        ///< forward only
  bool statistics = false;  ///< forward only, with neither bias nor relu (set by engine/program/statistics_fusion.cpp)
  /// A kernel that needs more scratch than this is not chosen where another serves.
  std::int64_t workspace_limit = std::int64_t{96} << 20;
  friend bool operator==(const Conv2dAttributes&, const Conv2dAttributes&) = default;
};

/// inputs: x (N, H, W, C), W (out, kh, kw, C/groups)[, b (out)]; outputs: y (N, H', W', out) with
/// H' = ⌊(H + 2·padding − dilation·(kernel − 1) − 1) / stride⌋ + 1. With `statistics` also Σy and Σy² of each channel,
/// (out) of f32, of y before or after it is rounded to its type. Throws ShapeError.
Op conv2d_op(const TensorType& x, const Conv2dAttributes& attributes);
/// A forward op that may have them, with statistics.
Op conv2d_with_statistics_op(const Op& conv2d);
/// Whether `op` is a conv2d with neither bias nor ReLU.
bool may_have_statistics(const Op& op);
/// inputs: dy, W; outputs: dx.
Op conv2d_backward_input_op(const Op& conv2d);
/// inputs: dy, x; outputs: dW[, db].
Op conv2d_backward_weight_op(const Op& conv2d);

}  // namespace trainer
