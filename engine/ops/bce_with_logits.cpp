#include "engine/ops/bce_with_logits.h"

#include "engine/ops/elementwise.h"

namespace trainer {

Op bce_with_logits_op(const TensorType& prediction, const TensorType& targets, const LossTerm& term) {
  return numeric_loss_op(OpKind::bce_with_logits, "bce_with_logits", prediction, targets, term);
}

Op bce_with_logits_backward_op(const Op& bce_with_logits) {
  return numeric_loss_backward_op(OpKind::bce_with_logits_backward, bce_with_logits);
}

namespace {

void differentiate_bce_with_logits(GradientScope& scope) {
  scope.set_gradient(0, scope.emit(bce_with_logits_backward_op(scope.op()), {scope.input(0), scope.input(1)})[0]);
}

}  // namespace

const OpDefinition bce_with_logits_definition = {
    .flops = flops_per_input_element<3>, .differentiate = differentiate_bce_with_logits, .takes_scratch = true};
const OpDefinition bce_with_logits_backward_definition = {.flops = flops_per_input_element<3>,
                                                          .in_place = in_place_over_first};

}  // namespace trainer
