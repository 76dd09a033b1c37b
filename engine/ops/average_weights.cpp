#include "engine/ops/average_weights.h"

#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {

Op average_weights_op(std::span<const TensorType> weights) {
  std::vector<TensorType> inputs;
  for (const TensorType& weight : weights) {
    require_internal(weight.dtype == DType::f32, "weights that are averaged are f32");
    inputs.insert(inputs.end(), 2, weight);
  }
  return {OpKind::average_weights, std::monostate{}, std::move(inputs), {}};
}

namespace {

/// Three for each weight.
std::int64_t average_flops(const Op& op) {
  std::int64_t elements = 0;
  for (const TensorType& operand : op.inputs) elements += operand.num_elements();
  return elements / 2 * 3;
}

bool is_average(const Op&, int position) { return position % 2 == 1; }

}  // namespace

const OpDefinition average_weights_definition = {.flops = average_flops, .role = Role::update, .modifies = is_average};

}  // namespace trainer
