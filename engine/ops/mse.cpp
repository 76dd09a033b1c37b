#include "engine/ops/mse.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op mse_op(const TensorType& prediction, const TensorType& targets, const LossTerm& term) {
  return numeric_loss_op(OpKind::mse, "mse", prediction, targets, term);
}

Op mse_backward_op(const Op& mse) { return numeric_loss_backward_op(OpKind::mse_backward, mse); }

namespace {

void differentiate_mse(GradientScope& scope) {
  scope.set_gradient(0, scope.emit(mse_backward_op(scope.op()), {scope.input(0), scope.input(1)})[0]);
}

}  // namespace

const OpDefinition mse_definition = {
    .flops = flops_per_input_element<3>, .differentiate = differentiate_mse, .takes_scratch = true};
const OpDefinition mse_backward_definition = {.flops = flops_per_input_element<3>, .in_place = in_place_over_first};

}  // namespace trainer
