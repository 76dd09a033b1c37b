#include "engine/ops/layernorm.h"

#include <array>
#include <string>

#include "engine/ops/elementwise.h"

namespace trainer {

Op layernorm_op(const TensorType& x, const LayerNormAttributes& attributes) {
  if (x.shape.rank() < 2)
    throw ShapeError(std::string(attributes.centres ? "layernorm" : "rmsnorm") + " takes at least (batch, features)");
  const TensorType features{DType::f32, {x.shape[-1]}};
  const TensorType rows{DType::f32, {x.num_elements() / x.shape[-1]}};
  Op op{OpKind::layernorm, attributes, {x}, {x, rows}};
  if (attributes.affine) op.inputs.push_back(features);
  if (!attributes.centres) return op;
  op.outputs.push_back(rows);
  if (attributes.affine) op.inputs.push_back(features);
  return op;
}

Op layernorm_backward_op(const Op& layernorm) {
  const auto& attributes = attributes_of<LayerNormAttributes>(layernorm);
  const TensorType& x = layernorm.inputs[0];
  const TensorType& rows = layernorm.outputs[1];
  Op op{OpKind::layernorm_backward, attributes, {x, x, rows}, {x}};
  if (attributes.centres) op.inputs.push_back(rows);
  if (!attributes.affine) return op;
  op.inputs.push_back(layernorm.inputs[1]);
  op.outputs.push_back(layernorm.inputs[1]);
  if (attributes.centres) op.outputs.push_back(layernorm.inputs[2]);
  return op;
}

Op layernorm_adding_op(const Op& layernorm) {
  Op op = layernorm;
  std::get<LayerNormAttributes>(op.attributes).adds = true;
  op.inputs.push_back(op.inputs[0]);
  op.outputs.push_back(op.inputs[0]);
  return op;
}

Op layernorm_adding_backward_op(const Op& layernorm_backward) {
  Op op = layernorm_backward;
  std::get<LayerNormAttributes>(op.attributes).adds = true;
  op.inputs.push_back(op.inputs[1]);
  return op;
}

namespace {

void differentiate_layernorm(GradientScope& scope) {
  const auto attributes = attributes_of<LayerNormAttributes>(scope.op());
  require_internal(!attributes.adds, "sums move into layer norms behind differentiate()");
  std::vector<Operand> inputs = {scope.output_gradient(), scope.input(0), scope.output(1)};
  if (attributes.centres) inputs.push_back(scope.output(2));
  if (attributes.affine) inputs.push_back(scope.input(1));
  const auto outputs = scope.emit(layernorm_backward_op(scope.op()), std::move(inputs));
  if (scope.needs_gradient(0)) scope.set_gradient(0, outputs[0]);
  for (std::size_t i = 1; i < outputs.size(); ++i) scope.set_gradient(i, outputs[i]);
}

template <std::int64_t per_element>
std::int64_t layernorm_flops(const Op& op) {
  const std::int64_t sums = attributes_of<LayerNormAttributes>(op).adds ? 1 : 0;
  return flops_product(per_element + sums, op.inputs[0].num_elements(), 1);
}

std::span<const InPlace> layernorm_in_place(const Op& op) {
  // The sum over x, and y over the addend, which are the last output and the last input.
  static constexpr std::array<InPlace, 2> with_addend = {{{.output = 3, .input = 0}, {.output = 0, .input = 1}}};
  static constexpr std::array<InPlace, 2> affine_with_addend = {{{.output = 3, .input = 0}, {.output = 0, .input = 3}}};
  static constexpr std::array<InPlace, 2> rms_with_addend = {{{.output = 2, .input = 0}, {.output = 0, .input = 1}}};
  static constexpr std::array<InPlace, 2> affine_rms_with_addend = {
      {{.output = 2, .input = 0}, {.output = 0, .input = 2}}};
  const auto& attributes = attributes_of<LayerNormAttributes>(op);
  if (!attributes.adds) return in_place_over_first;
  if (!attributes.centres) return attributes.affine ? affine_rms_with_addend : rms_with_addend;
  return attributes.affine ? affine_with_addend : with_addend;
}

}  // namespace

const OpDefinition layernorm_definition = {.flops = layernorm_flops<7>,
                                           .differentiate = differentiate_layernorm,
                                           .in_place_of = layernorm_in_place,
                                           .precision = Precision::follows_first,
                                           .is_cheap = true,
                                           .takes_scratch = true};
const OpDefinition layernorm_backward_definition = {
    .flops = layernorm_flops<11>, .in_place = in_place_over_first, .takes_scratch = true};

}  // namespace trainer
