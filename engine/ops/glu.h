#pragma once

#include "engine/ops/activation.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// Gated linear units (Shazeer, 2020): y = f(gate) · up, by f = silu (SwiGLU) or gelu (GEGLU).
struct GluAttributes {
  Activation function = Activation::silu;
  GeluApproximation approximate = GeluApproximation::none;  ///< gelu only
  friend bool operator==(const GluAttributes&, const GluAttributes&) = default;
};

/// inputs: gate and up, both (…, C); outputs: y (…, C), which may be stored over gate.
Op glu_op(const TensorType& gate, const TensorType& up, const GluAttributes& attributes);
/// inputs: both in one, (…, 2 C), of whose rows gate is the first half; outputs: y (…, C). Throws ShapeError where the
/// last dimension is odd.
Op packed_glu_op(const TensorType& x, const GluAttributes& attributes);
/// inputs: dy, then what `glu` takes; outputs: the gradients of that. Where these are two, that of gate may be stored
/// over dy and that of up over up, else the one over what it is the gradient of.
Op glu_backward_op(const Op& glu);

/// Where an op's gates and ups are: whole operands, or halves of the rows of one.
struct GluLayout {
  bool packed = false;
  std::int64_t rows = 0, columns = 0;  ///< of y
  std::int64_t row_elements = 0;       ///< from one row of gates to the next, and of ups
};
/// Of either op.
GluLayout glu_layout(const Op& op);

}  // namespace trainer
