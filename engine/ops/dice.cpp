#include "engine/ops/dice.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/elementwise.h"

namespace trainer {

Op dice_sums_op(const TensorType& logits, const TensorType& targets, const DiceAttributes& attributes) {
  const bool has_classes = targets.dtype == DType::i32;
  const bool is_fitting = has_classes ? logits.shape.rank() == targets.shape.rank() + 1 &&
                                            std::equal(targets.shape.begin(), targets.shape.end(), logits.shape.begin())
                                      : logits.shape == targets.shape && logits.shape.rank() > 1;
  if (!is_fitting) {
    throw ShapeError(fmt::format("dice takes, for {} of {}, {}; the model's output is {}",
                                 has_classes ? "classes" : "numbers", targets.shape.to_string(),
                                 has_classes ? "one logit a class for each of them" : "a logit for each of them",
                                 logits.shape.to_string()));
  }
  return {OpKind::dice_sums, attributes, {logits, targets}, {{DType::f64, {logits.shape[-1], num_dice_sums}}}};
}

Op dice_op(const Op& dice_sums) {
  const auto& attributes = attributes_of<DiceAttributes>(dice_sums);
  return {OpKind::dice,
          attributes,
          {dice_sums.inputs[0], dice_sums.inputs[1], dice_sums.outputs[0], loss_statistics_type(attributes.term.count)},
          {}};
}

Op dice_backward_op(const Op& dice) {
  return {OpKind::dice_backward, dice.attributes, {dice.inputs[0], dice.inputs[1], dice.inputs[2]}, {dice.inputs[0]}};
}

DiceShape dice_shape_of(const Op& dice) {
  const TensorType& logits = dice.inputs[0];
  const std::int64_t channels = logits.shape[-1];
  return {logits.num_elements() / channels, channels, logits.shape[0], dice.inputs[1].dtype == DType::i32};
}

namespace {

void differentiate_dice(GradientScope& scope) {
  scope.set_gradient(0, scope.emit(dice_backward_op(scope.op()), {scope.input(0), scope.input(1), scope.input(2)})[0]);
}

bool is_statistics_of_dice(const Op& /*op*/, int position) { return position == 3; }

/// The loss is computed of the sums alone.
std::int64_t dice_flops(const Op& op) { return flops_product(8, op.inputs[2].shape[0], 1); }

}  // namespace

// Maximum, exponential, sum, quotient, and the sums of each class.
const OpDefinition dice_sums_definition = {.flops = flops_per_input_element<7>, .takes_scratch = true};
const OpDefinition dice_definition = {
    .flops = dice_flops, .differentiate = differentiate_dice, .modifies = is_statistics_of_dice};
const OpDefinition dice_backward_definition = {
    .flops = flops_per_input_element<9>, .in_place = in_place_over_first, .takes_scratch = true};

}  // namespace trainer
