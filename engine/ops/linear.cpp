#include "engine/ops/linear.h"

#include <fmt/format.h>

#include "engine/ops/activation.h"
#include "engine/ops/elementwise.h"

namespace trainer {

namespace {

TensorType kept_type(const TensorType& y, const LinearAttributes& attributes) {
  require_internal(attributes.relu != attributes.gelu, "a linear op keeps something for ReLU or for GELU");
  if (attributes.gelu) return y;
  TensorType mask{DType::u8, y.shape};
  mask.shape[-1] = relu_mask_row_bytes(attributes.out);
  return mask;
}

}  // namespace

Op linear_op(const TensorType& x, const LinearAttributes& attributes) {
  if (x.shape.rank() < 2) {
    throw ShapeError(
        fmt::format("linear takes samples of at least one dimension; its input is {}", x.shape.to_string()));
  }
  require_internal(attributes.keeps || !attributes.gelu, "a linear op with GELU keeps the sums before it");
  Op op{OpKind::linear, attributes, {x, {x.dtype, {attributes.out, x.shape[-1]}}}, {x}};
  op.outputs[0].shape[-1] = attributes.out;
  if (attributes.bias) op.inputs.push_back({x.dtype, {attributes.out}});
  if (attributes.keeps) op.outputs.push_back(kept_type(op.outputs[0], attributes));
  return op;
}

Op linear_backward_input_op(const Op& linear) {
  return {OpKind::linear_backward_input, linear.attributes, {linear.outputs[0], linear.inputs[1]}, {linear.inputs[0]}};
}

Op linear_backward_input_op(const Op& linear, const Op& before) {
  const auto& attributes_before = attributes_of<LinearAttributes>(before);
  require_internal(attributes_before.keeps && before.outputs[0] == linear.inputs[0],
                   "a gradient goes back through the activation that made the input");
  Op op = linear_backward_input_op(linear);
  std::get<LinearAttributes>(op.attributes).through =
      attributes_before.relu ? InputActivation::relu : InputActivation::gelu;
  op.inputs.push_back(before.outputs[1]);
  return op;
}

Op linear_backward_weight_op(const Op& linear) {
  Op op{OpKind::linear_backward_weight, linear.attributes, {linear.outputs[0], linear.inputs[0]}, {linear.inputs[1]}};
  if (attributes_of<LinearAttributes>(linear).bias) op.outputs.push_back(linear.inputs[2]);
  return op;
}

Op linear_add_backward_weight_op(const Op& linear) {
  Op op = linear_backward_weight_op(linear);
  std::get<LinearAttributes>(op.attributes).adds = true;
  op.inputs.insert(op.inputs.end(), op.outputs.begin(), op.outputs.end());
  op.outputs.clear();
  return op;
}

namespace {

/// All three products are rows × in × out multiply-adds.
std::int64_t linear_flops(const TensorType& features, std::int64_t other) {
  return flops_product(2, features.num_elements(), other);
}
std::int64_t linear_forward_flops(const Op& op) { return linear_flops(op.inputs[0], op.outputs[0].shape[-1]); }
std::int64_t linear_backward_input_flops(const Op& op) { return linear_flops(op.inputs[0], op.outputs[0].shape[-1]); }
std::int64_t linear_backward_weight_flops(const Op& op) { return linear_flops(op.inputs[0], op.inputs[1].shape[-1]); }

void differentiate_linear(GradientScope& scope) {
  const auto attributes = attributes_of<LinearAttributes>(scope.op());
  Operand gradient = scope.output_gradient();
  if (attributes.relu) {
    const Op relu = activation_backward_op(scope.op().outputs[0], {.function = Activation::relu});
    gradient = scope.emit(relu, {gradient, scope.output(0)})[0];
  }
  if (scope.needs_gradient(1)) {
    const auto outputs = scope.emit(linear_backward_weight_op(scope.op()), {gradient, scope.input(0)});
    scope.set_gradient(1, outputs[0]);
    if (attributes.bias) scope.set_gradient(2, outputs[1]);
  }
  if (scope.needs_gradient(0))
    scope.set_gradient(0, scope.emit(linear_backward_input_op(scope.op()), {gradient, scope.input(1)})[0]);
}

/// Of a weight's gradient: dW and db, where it adds.
bool adds_to(const Op& op, int position) { return attributes_of<LinearAttributes>(op).adds && position >= 2; }

}  // namespace

const OpDefinition linear_definition = {.flops = linear_forward_flops,
                                        .differentiate = differentiate_linear,
                                        .precision = Precision::product,
                                        .work = Work::product,
                                        .takes_scratch = true};
const OpDefinition linear_backward_input_definition = {
    .flops = linear_backward_input_flops, .work = Work::product, .takes_scratch = true};
const OpDefinition linear_backward_weight_definition = {.flops = linear_backward_weight_flops,
                                                        .work = Work::product,
                                                        .role = Role::weight_gradient,
                                                        .modifies = adds_to,
                                                        .takes_scratch = true};

}  // namespace trainer
