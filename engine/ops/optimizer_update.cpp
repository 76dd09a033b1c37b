#include "engine/ops/optimizer_update.h"

#include <algorithm>

#include "engine/half.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

void require_format(std::span<const TensorType> weights, const UpdateFormat& format) {
  require_internal(format.factored || !format.scaled, "an update that knows the loss scale has a gradient factor");
  require_internal(format.gradients == DType::f32 || is_16_bit(format.gradients),
                   "gradients are floating-point numbers");
  require_internal(!format.copies || is_16_bit(*format.copies), "copies of weights have 16 bits");
  const DType weight_type = format.random_streams.empty() ? DType::f32 : DType::bf16;
  require_internal(format.random_streams.empty() || format.random_streams.size() == weights.size(),
                   "an update has a random stream for each of its bf16 weights");
  require_internal(format.first_elements.empty() || format.first_elements.size() == format.random_streams.size(),
                   "an update knows where each of its parts begins");
  require_internal(std::ranges::all_of(weights, [&](const TensorType& weight) { return weight.dtype == weight_type; }),
                   "the weights of an update are f32, or bf16 where it has random streams");
}

/// `state`: the types of what the optimizer keeps for a weight.
template <typename State>
std::vector<TensorType> update_operands(std::span<const TensorType> weights, const UpdateFormat& format,
                                        const State& state) {
  require_format(weights, format);
  std::vector<TensorType> operands = {{DType::f64, {num_loss_statistics}}};
  if (format.factored) operands.push_back({DType::f32, {num_gradient_factors}});
  if (format.scaled) operands.push_back({DType::f64, {num_loss_scale_values}});
  for (const TensorType& weight : weights) {
    operands.push_back(weight);
    operands.push_back({format.gradients, weight.shape});
    if (format.copies) operands.push_back({*format.copies, weight.shape});
    for (const TensorType& type : state(weight)) operands.push_back(type);
  }
  return operands;
}

template <std::int64_t per_operand_element>
std::int64_t update_flops(const Op& op) {
  std::int64_t elements = 0;
  for (const TensorType& operand : op.inputs) elements += operand.num_elements();
  return per_operand_element * elements;
}

}  // namespace

Op sgd_update_op(std::span<const TensorType> weights, const SgdUpdateAttributes& attributes) {
  const auto state = [&](const TensorType& weight) {
    return std::vector<TensorType>(attributes.momentum > 0 ? 1 : 0, {DType::f32, weight.shape});
  };
  return {OpKind::sgd_update, attributes, update_operands(weights, attributes.format, state), {}};
}

Op adam_update_op(std::span<const TensorType> weights, const AdamUpdateAttributes& attributes) {
  const auto state = [&](const TensorType& weight) {
    return std::vector<TensorType>(
        2, attributes.eight_bit ? moment_type(weight.num_elements()) : TensorType{DType::f32, weight.shape});
  };
  return {OpKind::adam_update, attributes, update_operands(weights, attributes.format, state), {}};
}

int first_parameter_operand(const UpdateFormat& format) {
  return 1 + static_cast<int>(format.factored) + static_cast<int>(format.scaled);
}
int operands_of_a_parameter(const SgdUpdateAttributes& attributes) {
  return 2 + static_cast<int>(attributes.format.copies.has_value()) + static_cast<int>(attributes.momentum > 0);
}
int operands_of_a_parameter(const AdamUpdateAttributes& attributes) {
  return 4 + static_cast<int>(attributes.format.copies.has_value());
}

TensorType moment_type(std::int64_t count) {
  return {DType::u8, {moment_code_bytes(count) + 4 * num_moment_blocks(count)}};
}

namespace {

bool rounds_at_random(const UpdateFormat& format) { return !format.random_streams.empty(); }
bool is_slow_sgd(const Op& op) { return rounds_at_random(attributes_of<SgdUpdateAttributes>(op).format); }
bool is_slow_adam(const Op& op) {
  const auto& attributes = attributes_of<AdamUpdateAttributes>(op);
  return attributes.eight_bit || rounds_at_random(attributes.format);
}

}  // namespace

const OpDefinition sgd_update_definition = {.flops = update_flops<2>, .role = Role::update, .is_slow = is_slow_sgd};
const OpDefinition adam_update_definition = {.flops = update_flops<3>, .role = Role::update, .is_slow = is_slow_adam};

}  // namespace trainer
