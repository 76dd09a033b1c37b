#include "engine/ops/add.h"

#include "engine/ops/activation.h"
#include "engine/ops/elementwise.h"

namespace trainer {

Op add_op(const TensorType& a, const AddAttributes& attributes) { return {OpKind::add, attributes, {a, a}, {a}}; }

namespace {

// Both inputs get the gradient as it is: they share one value, and nothing is computed.
void differentiate_add(GradientScope& scope) {
  Operand gradient = scope.output_gradient();
  if (attributes_of<AddAttributes>(scope.op()).relu) {
    const Op relu = activation_backward_op(scope.op().outputs[0], {.function = Activation::relu});
    gradient = scope.emit(relu, {gradient, scope.output(0)})[0];
  }
  for (int position : {0, 1})
    if (scope.needs_gradient(position)) scope.set_gradient(position, gradient);
}

}  // namespace

const OpDefinition add_definition = {.flops = flops_per_input_element<1>,
                                     .differentiate = differentiate_add,
                                     .in_place = in_place_over_either,
                                     .precision = Precision::follows,
                                     .is_cheap = true};

}  // namespace trainer
