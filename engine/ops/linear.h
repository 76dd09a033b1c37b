#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// y = x Wᵀ + b, then ReLU where `relu` (set by the fusion pass).
struct LinearAttributes {
  std::int64_t out = 0;
  bool bias = true;
  bool relu = false;  ///< forward only; its gradient is an activation_backward on the output
  friend bool operator==(const LinearAttributes&, const LinearAttributes&) = default;
};

/// inputs: x (…, in), W (out, in)[, b (out)]; outputs: y (…, out). x has rank 2 or 3.
/// Throws ShapeError for images (rank 4): flatten comes first.
Op linear_op(const TensorType& x, const LinearAttributes& attributes);
/// inputs: dy (…, out), W (out, in); outputs: dx (…, in).
Op linear_backward_input_op(const Op& linear);
/// inputs: dy (…, out), x (…, in); outputs: dW (out, in)[, db (out)].
Op linear_backward_weight_op(const Op& linear);

}  // namespace trainer
