#pragma once

#include <span>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Elements of the f32 vector that an update multiplies gradients by.
enum GradientFactor : int {
  gradient_norm_value,  ///< L2 norm of all gradients together, unscaled
  gradient_multiplier,  ///< 1 / loss scale · min(1, clip_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_
  gradients_finite,     ///< 1, or 0 where any gradient is not finite
  num_gradient_factors,
};

struct GradientFactorAttributes {
  double clip_norm = 0;  ///< largest norm; 0: not clipped
  bool scaled = false;   ///< the first input is the loss scale, see Note [Loss scale]
  friend bool operator==(const GradientFactorAttributes&, const GradientFactorAttributes&) = default;
};

struct GradientSquaresAttributes {
  bool exact = false;
  friend bool operator==(const GradientSquaresAttributes&, const GradientSquaresAttributes&) = default;
};

/// Squares of so many elements are added in f64, before they are added exactly. A part of a tensor has whole ones
/// (engine/ops/rank_parts.h).
inline constexpr std::int64_t exact_block_elements = 256;

/// inputs: gradients, f32, f16 and bf16 in any mixture; outputs: f64 (1), the sum of their squares, summed in f64, or
/// where `exact` i64 (num_exact_sum), see Note [Exact sums] in exact_sum.h. Of the parts of gradients that one of
/// several ranks has, to be summed over ranks.
Op gradient_squares_op(std::span<const TensorType> gradients, const GradientSquaresAttributes& attributes = {});

/// inputs: [loss scale f64 (num_loss_scale_values) where scaled,] all gradients, f32, f16 and bf16 in any mixture, or
/// in their place the sum of their squares, f64 (1) or i64 (num_exact_sum); outputs: f32 (num_gradient_factors).
/// Squares are summed in f64.
Op gradient_factor_op(std::span<const TensorType> gradients, const GradientFactorAttributes& attributes);

}  // namespace trainer
