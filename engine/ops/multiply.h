#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Whether the second factor of multiply_op is one number a channel of each image: (N, 1, 1, C) or (N, C) beside
/// (N, H, W, C).
bool is_gate(const TensorType& x, const TensorType& gate);

/// Throws ShapeError unless the factors are of one shape or the second is a gate; both are of one element type.
/// inputs: x, factor; outputs: y = x · factor, where each pixel of an image has its channel's gate. y may be stored
/// over x, or over a factor of its shape.
Op multiply_op(const TensorType& x, const TensorType& factor);
/// The gradient of a gate. inputs: dy, x (N, H, W, C); outputs: the sum over H and W of dy · x, of the gate's shape.
Op multiply_backward_gate_op(const Op& multiply);

}  // namespace trainer
