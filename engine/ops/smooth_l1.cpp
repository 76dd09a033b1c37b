#include "engine/ops/smooth_l1.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op smooth_l1_op(const TensorType& prediction, const TensorType& targets, const SmoothL1Attributes& attributes) {
  Op op = numeric_loss_op(OpKind::smooth_l1, attributes.beta == 0 ? "l1" : "smooth_l1", prediction, targets,
                          attributes.term);
  op.attributes = attributes;
  return op;
}

Op smooth_l1_backward_op(const Op& smooth_l1) {
  return numeric_loss_backward_op(OpKind::smooth_l1_backward, smooth_l1);
}

namespace {

void differentiate_smooth_l1(GradientScope& scope) {
  scope.set_gradient(0, scope.emit(smooth_l1_backward_op(scope.op()), {scope.input(0), scope.input(1)})[0]);
}

}  // namespace

const OpDefinition smooth_l1_definition = {
    .flops = flops_per_input_element<4>, .differentiate = differentiate_smooth_l1, .takes_scratch = true};
const OpDefinition smooth_l1_backward_definition = {.flops = flops_per_input_element<4>,
                                                    .in_place = in_place_over_first};

}  // namespace trainer
