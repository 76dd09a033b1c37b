#pragma once

#include <span>

#include "engine/shape.h"

namespace trainer {

struct Op;

struct GradientNormAttributes {
  double clip_norm = 0;  ///< largest norm; as PyTorch's clip_grad_norm_, factor = min(1, clip_norm / (norm + 1e-6))
  friend bool operator==(const GradientNormAttributes&, const GradientNormAttributes&) = default;
};

/// inputs: all gradients; outputs: f32 (2): their global L2 norm, and the factor the update multiplies them by.
Op gradient_norm_op(std::span<const TensorType> gradients, const GradientNormAttributes& attributes);

}  // namespace trainer
