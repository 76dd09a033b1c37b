#pragma once

#include <span>

#include "engine/ops/loss_statistics.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// One update of many parameters at once. The learning rate and the number of updates so far come with StepScalars.
/// Formulas and their order are torch.optim's (SGD with dampening 0; Adam: Kingma and Ba, 2015; AdamW: Loshchilov and
/// Hutter, 2019).
struct SgdUpdateAttributes {
  double momentum = 0;  ///< the first update starts the momentum at the gradient, as PyTorch's
  bool nesterov = false;
  double weight_decay = 0;
  bool clip = false;  ///< the second input is gradient_norm's output
  friend bool operator==(const SgdUpdateAttributes&, const SgdUpdateAttributes&) = default;
};
struct AdamUpdateAttributes {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW
  bool clip = false;
  friend bool operator==(const AdamUpdateAttributes&, const AdamUpdateAttributes&) = default;
};

/// Where the loss_sum of the loss statistics is not finite, an update changes nothing: a device that runs ahead of the
/// host meets the update of a failed step before the host has read its loss.
///
/// inputs: loss statistics f64 (num_loss_statistics), [norm and factor f32 (2),] then for each parameter: weight
/// [modified], gradient[, momentum [modified] where momentum > 0]; no outputs.
Op sgd_update_op(std::span<const TensorType> parameters, const SgdUpdateAttributes& attributes);
/// inputs: loss statistics, [norm and factor,] then for each parameter: weight [modified], gradient, first and second
/// moment [modified]; no outputs.
Op adam_update_op(std::span<const TensorType> parameters, const AdamUpdateAttributes& attributes);

/// The input that holds the first parameter's weight.
constexpr int first_parameter_operand(bool clip) { return clip ? 2 : 1; }

}  // namespace trainer
