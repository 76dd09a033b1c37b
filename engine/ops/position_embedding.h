#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// y[n, t] = x[n, t] + W[t]: a learned row for each place of a sequence.
/// inputs: x (N, T, C), W (length, C), f32; outputs: y, which may be stored over x.
/// Throws ShapeError for x of another rank, or of more than `length` places.
Op position_embedding_op(const TensorType& x, std::int64_t length);
/// The same with the place of each row of x as an operand: y[n, t] = x[n, t] + W[places[n, t]], NaN where that is none
/// of [0, length). inputs: x, W, places i32 (N, T); outputs: y, which may be stored over x. Its dW is that of an
/// embedding of the places.
Op position_embedding_at_op(const Op& position_embedding);
/// dW[t] = the sum of dy[n, t] over n, in their order and in f32, 0 from place T on; that of x is dy.
/// inputs: dy (N, T, C); outputs: dW (length, C), f32.
Op position_embedding_backward_op(const Op& position_embedding);

}  // namespace trainer
