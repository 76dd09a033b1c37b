#include "engine/ops/conv2d.h"

#include <fmt/format.h>

#include "engine/ops/activation.h"
#include "engine/ops/elementwise.h"

namespace trainer {

Op conv2d_op(const TensorType& x, const Conv2dAttributes& attributes) {
  require_image(x, "conv2d");
  const std::int64_t channels = x.shape[3];
  if (channels % attributes.groups != 0 || attributes.out % attributes.groups != 0) {
    throw ShapeError(
        fmt::format("conv2d with groups {} needs input and output channels divisible by it; its input is "
                    "{} and out is {}",
                    attributes.groups, x.shape.to_string(), attributes.out));
  }
  Shape y{x.shape[0], 0, 0, attributes.out};
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = attributes.dilation[axis] * (attributes.kernel[axis] - 1) + 1;
    const std::int64_t padded = x.shape[1 + axis] + 2 * attributes.padding[axis];
    if (padded < reach) {
      throw ShapeError(fmt::format("conv2d with kernel {}×{} and padding {}×{} does not fit into its input {}",
                                   attributes.kernel[0], attributes.kernel[1], attributes.padding[0],
                                   attributes.padding[1], x.shape.to_string()));
    }
    y[1 + axis] = (padded - reach) / attributes.stride[axis] + 1;
  }
  const Shape weight{attributes.out, attributes.kernel[0], attributes.kernel[1], channels / attributes.groups};
  Op op{OpKind::conv2d, attributes, {x, {x.dtype, weight}}, {{x.dtype, y}}};
  if (attributes.bias) op.inputs.push_back({x.dtype, {attributes.out}});
  if (attributes.statistics) {
    require_internal(!attributes.bias && !attributes.relu, "a convolution's statistics are those of its sums alone");
    op.outputs.insert(op.outputs.end(), 2, {DType::f32, {attributes.out}});
  }
  return op;
}

Op conv2d_with_statistics_op(const Op& conv2d) {
  Conv2dAttributes attributes = attributes_of<Conv2dAttributes>(conv2d);
  attributes.statistics = true;
  return conv2d_op(conv2d.inputs[0], attributes);
}

bool may_have_statistics(const Op& op) {
  if (op.kind != OpKind::conv2d) return false;
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  return !attributes.bias && !attributes.relu;
}

Op conv2d_backward_input_op(const Op& conv2d) {
  return {OpKind::conv2d_backward_input, conv2d.attributes, {conv2d.outputs[0], conv2d.inputs[1]}, {conv2d.inputs[0]}};
}

Op conv2d_backward_weight_op(const Op& conv2d) {
  Op op{OpKind::conv2d_backward_weight, conv2d.attributes, {conv2d.outputs[0], conv2d.inputs[0]}, {conv2d.inputs[1]}};
  if (attributes_of<Conv2dAttributes>(conv2d).bias) op.outputs.push_back(conv2d.inputs[2]);
  return op;
}

namespace {

/// Each element of y costs one multiply-add for every weight of its output channel; both backward products as many.
std::int64_t conv2d_flops(const TensorType& y, const TensorType& weight) {
  return flops_product(2, y.num_elements(), weight.num_elements() / weight.shape[0]);
}
std::int64_t conv2d_forward_flops(const Op& op) { return conv2d_flops(op.outputs[0], op.inputs[1]); }
std::int64_t conv2d_backward_input_flops(const Op& op) { return conv2d_flops(op.inputs[0], op.inputs[1]); }
std::int64_t conv2d_backward_weight_flops(const Op& op) { return conv2d_flops(op.inputs[0], op.outputs[0]); }

void differentiate_conv2d(GradientScope& scope) {
  const auto attributes = attributes_of<Conv2dAttributes>(scope.op());
  Operand gradient = scope.output_gradient();
  if (attributes.relu) {
    const Op relu = activation_backward_op(scope.op().outputs[0], {.function = Activation::relu});
    gradient = scope.emit(relu, {gradient, scope.output(0)})[0];
  }
  if (scope.needs_gradient(1)) {
    const auto outputs = scope.emit(conv2d_backward_weight_op(scope.op()), {gradient, scope.input(0)});
    scope.set_gradient(1, outputs[0]);
    if (attributes.bias) scope.set_gradient(2, outputs[1]);
  }
  if (scope.needs_gradient(0))
    scope.set_gradient(0, scope.emit(conv2d_backward_input_op(scope.op()), {gradient, scope.input(1)})[0]);
}

}  // namespace

const OpDefinition conv2d_definition = {.flops = conv2d_forward_flops,
                                        .differentiate = differentiate_conv2d,
                                        .precision = Precision::product,
                                        .work = Work::convolution,
                                        .takes_scratch = true};
const OpDefinition conv2d_backward_input_definition = {
    .flops = conv2d_backward_input_flops, .work = Work::convolution, .takes_scratch = true};
const OpDefinition conv2d_backward_weight_definition = {.flops = conv2d_backward_weight_flops,
                                                        .work = Work::convolution,
                                                        .role = Role::weight_gradient,
                                                        .takes_scratch = true};

}  // namespace trainer
