#include "engine/ops/activation.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op activation_op(const TensorType& x, const ActivationAttributes& attributes) {
  return {OpKind::activation, attributes, {x}, {x}};
}

Op activation_backward_op(const TensorType& x, const ActivationAttributes& attributes) {
  return {OpKind::activation_backward, attributes, {x, x}, {x}};
}

namespace {

void differentiate_activation(GradientScope& scope) {
  const auto attributes = attributes_of<ActivationAttributes>(scope.op());
  if (!scope.needs_gradient(0)) return;
  const Operand kept = gradient_reads_output(attributes) ? scope.output(0) : scope.input(0);
  const Op backward = activation_backward_op(scope.op().inputs[0], attributes);
  scope.set_gradient(0, scope.emit(backward, {scope.output_gradient(), kept})[0]);
}

bool takes_exponentials(const Op& op) {
  switch (attributes_of<ActivationAttributes>(op).function) {
    case Activation::gelu:
    case Activation::silu:
    case Activation::tanh:
    case Activation::sigmoid:
      return true;
    case Activation::relu:
    case Activation::leaky_relu:
    case Activation::relu6:
    case Activation::hardswish:
    case Activation::hardsigmoid:
      return false;
  }
  return false;
}

}  // namespace

const OpDefinition activation_definition = {.flops = flops_per_input_element<1>,
                                            .differentiate = differentiate_activation,
                                            .in_place = in_place_over_first,
                                            .precision = Precision::follows,
                                            .is_slow = takes_exponentials,
                                            .is_cheap = true,
                                            .can_be_placed = true};
const OpDefinition activation_backward_definition = {
    .flops = flops_per_input_element<2>, .in_place = in_place_over_first, .is_slow = takes_exponentials};

}  // namespace trainer
