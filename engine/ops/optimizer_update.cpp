#include "engine/ops/optimizer_update.h"

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

std::vector<TensorType> update_operands(std::span<const TensorType> parameters, bool clip, int tensors_each) {
  std::vector<TensorType> operands = {{DType::f64, {num_loss_statistics}}};
  if (clip) operands.push_back({DType::f32, {2}});
  for (const TensorType& parameter : parameters) operands.insert(operands.end(), tensors_each, parameter);
  return operands;
}

template <std::int64_t per_operand_element>
std::int64_t update_flops(const Op& op) {
  std::int64_t elements = 0;
  for (const TensorType& operand : op.inputs) elements += operand.num_elements();
  return per_operand_element * elements;
}

}  // namespace

Op sgd_update_op(std::span<const TensorType> parameters, const SgdUpdateAttributes& attributes) {
  const int tensors_each = attributes.momentum > 0 ? 3 : 2;
  return {OpKind::sgd_update, attributes, update_operands(parameters, attributes.clip, tensors_each), {}};
}

Op adam_update_op(std::span<const TensorType> parameters, const AdamUpdateAttributes& attributes) {
  return {OpKind::adam_update, attributes, update_operands(parameters, attributes.clip, 4), {}};
}

const OpDefinition sgd_update_definition = {.flops = update_flops<2>};
const OpDefinition adam_update_definition = {.flops = update_flops<3>};

}  // namespace trainer
