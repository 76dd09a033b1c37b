#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Whether flattening x keeps the order of its elements, so that it is a view and no op: x is no image, or has one
/// channel or one pixel.
bool flatten_is_view(const Shape& x);

/// inputs: x (N, H, W, C); outputs: y (N, C·H·W) in PyTorch's order (channel, row, column), so that the weights of a
/// linear layer behind it can be exchanged with PyTorch.
Op flatten_op(const TensorType& x);
/// inputs: dy (N, C·H·W); outputs: dx (N, H, W, C).
Op flatten_backward_op(const Op& flatten);

}  // namespace trainer
