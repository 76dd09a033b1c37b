#include "engine/ops/dropout.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op dropout_op(const TensorType& x, const DropoutAttributes& attributes) {
  return {OpKind::dropout, attributes, {x}, {x}};
}

Op dropout_backward_op(const Op& dropout) {
  return {OpKind::dropout_backward, dropout.attributes, dropout.outputs, dropout.inputs};
}

namespace {

void differentiate_dropout(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(dropout_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

// A comparison and a product; the random bits are integer work.
const OpDefinition dropout_definition = {.flops = flops_per_input_element<2>,
                                         .differentiate = differentiate_dropout,
                                         .in_place = in_place_over_first,
                                         .precision = Precision::follows,
                                         .is_cheap = true};
const OpDefinition dropout_backward_definition = {.flops = flops_per_input_element<2>, .in_place = in_place_over_first};

}  // namespace trainer
