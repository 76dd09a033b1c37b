#include "engine/ops/gradient_factor.h"

#include "engine/ops/exact_sum.h"
#include "engine/ops/loss_scale.h"
#include "engine/ops/op_definition.h"

namespace trainer {

Op gradient_squares_op(std::span<const TensorType> gradients, const GradientSquaresAttributes& attributes) {
  const TensorType sum = attributes.exact ? TensorType{DType::i64, {num_exact_sum}} : TensorType{DType::f64, {1}};
  return {OpKind::gradient_squares, attributes, {gradients.begin(), gradients.end()}, {sum}};
}

Op gradient_factor_op(std::span<const TensorType> gradients, const GradientFactorAttributes& attributes) {
  std::vector<TensorType> inputs;
  if (attributes.scaled) inputs.push_back({DType::f64, {num_loss_scale_values}});
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  return {OpKind::gradient_factor, attributes, std::move(inputs), {{DType::f32, {num_gradient_factors}}}};
}

namespace {

std::int64_t factor_flops(const Op& op) {
  std::int64_t flops = 0;
  for (const TensorType& operand : op.inputs) flops += 2 * operand.num_elements();
  return flops;
}

}  // namespace

const OpDefinition gradient_squares_definition = {.flops = factor_flops, .takes_scratch = true};
const OpDefinition gradient_factor_definition = {.flops = factor_flops, .takes_scratch = true};

}  // namespace trainer
