#pragma once

#include <array>
#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// inputs: x (N, H, W, C); outputs: y (N, H', W', C) with `size` = (H', W'). Row i of y is the mean over the rows of x
/// from ⌊i·H/H'⌋ up to, not with, ⌈(i+1)·H/H'⌉, columns alike, as PyTorch's AdaptiveAvgPool2d; these windows overlap
/// where H' does not divide H, and repeat where it is larger. Throws ShapeError where H·H' or W·W' reaches 2^31.
Op adaptive_avgpool2d_op(const TensorType& x, const std::array<std::int64_t, 2>& size);
/// inputs: dy; outputs: dx.
Op adaptive_avgpool2d_backward_op(const Op& adaptive_avgpool2d);

}  // namespace trainer
