#include "engine/ops/dropout.h"

#include <algorithm>

#include "engine/ops/elementwise.h"

namespace trainer {

DropoutRule dropout_rule(double probability) {
  // uniform(i) ≥ p compares word / 2^24 with p in f32, where p = 1 drops everything.
  const auto p = static_cast<float>(probability);
  auto threshold = static_cast<std::uint32_t>(std::clamp(static_cast<double>(p) * 16777216.0, 0.0, 16777216.0));
  while (threshold < 16777216U && static_cast<float>(threshold) * (1.0F / 16777216.0F) < p) ++threshold;
  return {threshold, p < 1 ? static_cast<float>(1 / (1 - probability)) : 0};
}

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
