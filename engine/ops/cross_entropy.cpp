#include "engine/ops/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/elementwise.h"
#include "engine/ops/mixed_sample.h"

namespace trainer {

Op cross_entropy_op(const TensorType& logits, const TensorType& targets, const CrossEntropyAttributes& attributes) {
  if (targets.dtype != DType::i32) throw ShapeError("cross_entropy needs classes as targets; the data has numbers");
  if (targets.shape.rank() == 1 && logits.shape.rank() != 2) {
    throw ShapeError(
        fmt::format("cross_entropy takes logits of shape (batch, classes); the model's output is {}: put "
                    "flatten or global_avgpool before its last layer",
                    logits.shape.to_string()));
  }
  const bool has_logits_a_target = logits.shape.rank() == targets.shape.rank() + 1 &&
                                   std::equal(targets.shape.begin(), targets.shape.end(), logits.shape.begin());
  if (!has_logits_a_target) {
    throw ShapeError(fmt::format(
        "cross_entropy takes, for targets of {}, one logit a class for each of them; the model's output is {}",
        targets.shape.to_string(), logits.shape.to_string()));
  }
  Op op{OpKind::cross_entropy, attributes, {logits, targets, loss_statistics_type(attributes.term.count)}, {}};
  if (attributes.mixed) op.inputs.push_back(mixed_samples_type(targets.shape[0]));
  return op;
}

Op cross_entropy_backward_op(const Op& cross_entropy) {
  Op op{OpKind::cross_entropy_backward,
        cross_entropy.attributes,
        {cross_entropy.inputs[0], cross_entropy.inputs[1]},
        {cross_entropy.inputs[0]}};
  if (attributes_of<CrossEntropyAttributes>(cross_entropy).mixed) op.inputs.push_back(cross_entropy.inputs[3]);
  return op;
}

Op cross_entropy_with_gradient_op(const Op& cross_entropy) {
  return {
      OpKind::cross_entropy_with_gradient, cross_entropy.attributes, cross_entropy.inputs, {cross_entropy.inputs[0]}};
}

namespace {

void differentiate_cross_entropy(GradientScope& scope) {
  std::vector<Operand> inputs = {scope.input(0), scope.input(1)};
  if (attributes_of<CrossEntropyAttributes>(scope.op()).mixed) inputs.push_back(scope.input(3));
  scope.set_gradient(0, scope.emit(cross_entropy_backward_op(scope.op()), inputs)[0]);
}

bool is_loss_statistics(const Op& /*op*/, int position) { return position == 2; }

}  // namespace

// Maximum, exponential, sum, logarithm; an exponential counts one.
const OpDefinition cross_entropy_definition = {.flops = flops_per_input_element<4>,
                                               .differentiate = differentiate_cross_entropy,
                                               .modifies = is_loss_statistics,
                                               .takes_scratch = true};
const OpDefinition cross_entropy_backward_definition = {
    .flops = flops_per_input_element<5>, .in_place = in_place_over_first, .takes_scratch = true};
// The maximum, exponentials and sum serve both.
const OpDefinition cross_entropy_with_gradient_definition = {.flops = flops_per_input_element<6>,
                                                             .in_place = in_place_over_first,
                                                             .modifies = is_loss_statistics,
                                                             .takes_scratch = true};

}  // namespace trainer
