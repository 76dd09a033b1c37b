#include "engine/ops/gradient_norm.h"

#include "engine/ops/op_definition.h"

namespace trainer {

Op gradient_norm_op(std::span<const TensorType> gradients, const GradientNormAttributes& attributes) {
  return {OpKind::gradient_norm, attributes, {gradients.begin(), gradients.end()}, {{DType::f32, {2}}}};
}

namespace {

std::int64_t norm_flops(const Op& op) {
  std::int64_t flops = 0;
  for (const TensorType& gradient : op.inputs) flops += 2 * gradient.num_elements();
  return flops;
}

}  // namespace

const OpDefinition gradient_norm_definition = {.flops = norm_flops};

}  // namespace trainer
