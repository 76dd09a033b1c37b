#include "engine/ops/layernorm.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op layernorm_op(const TensorType& x, const LayerNormAttributes& attributes) {
  if (x.shape.rank() < 2) throw ShapeError("layernorm takes at least (batch, features)");
  const TensorType features{DType::f32, {x.shape[-1]}};
  const TensorType rows{DType::f32, {x.num_elements() / x.shape[-1]}};
  Op op{OpKind::layernorm, attributes, {x}, {x, rows, rows}};
  if (attributes.affine) op.inputs.insert(op.inputs.end(), {features, features});
  return op;
}

Op layernorm_backward_op(const Op& layernorm) {
  const auto& attributes = attributes_of<LayerNormAttributes>(layernorm);
  const TensorType& x = layernorm.inputs[0];
  const TensorType& rows = layernorm.outputs[1];
  Op op{OpKind::layernorm_backward, attributes, {x, x, rows, rows}, {x}};
  if (attributes.affine) {
    op.inputs.push_back(layernorm.inputs[1]);
    op.outputs.insert(op.outputs.end(), {layernorm.inputs[1], layernorm.inputs[2]});
  }
  return op;
}

namespace {

void differentiate_layernorm(GradientScope& scope) {
  const bool affine = attributes_of<LayerNormAttributes>(scope.op()).affine;
  std::vector<Operand> inputs = {scope.output_gradient(), scope.input(0), scope.output(1), scope.output(2)};
  if (affine) inputs.push_back(scope.input(1));
  const auto outputs = scope.emit(layernorm_backward_op(scope.op()), std::move(inputs));
  if (scope.needs_gradient(0)) scope.set_gradient(0, outputs[0]);
  if (affine) {
    scope.set_gradient(1, outputs[1]);
    scope.set_gradient(2, outputs[2]);
  }
}

}  // namespace

const OpDefinition layernorm_definition = {.flops = flops_per_input_element<7>,
                                           .differentiate = differentiate_layernorm,
                                           .in_place = in_place_over_first,
                                           .precision = Precision::follows_first,
                                           .is_cheap = true};
const OpDefinition layernorm_backward_definition = {.flops = flops_per_input_element<11>,
                                                    .in_place = in_place_over_first};

}  // namespace trainer
