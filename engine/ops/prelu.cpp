#include "engine/ops/prelu.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

Op prelu_op(const TensorType& x, std::int64_t num) {
  if (num != 1 && num != x.shape[-1])
    throw ShapeError(
        fmt::format("prelu has {} slopes, and its input is {}: {} channels", num, x.shape.to_string(), x.shape[-1]));
  return {OpKind::prelu, std::monostate{}, {x, {DType::f32, {num}}}, {x}};
}

Op prelu_backward_op(const Op& prelu) {
  const TensorType &x = prelu.inputs[0], &weight = prelu.inputs[1];
  return {OpKind::prelu_backward, std::monostate{}, {x, x, weight}, {x, weight}};
}

namespace {

void differentiate_prelu(GradientScope& scope) {
  if (!scope.needs_gradient(0) && !scope.needs_gradient(1)) return;
  const auto gradients =
      scope.emit(prelu_backward_op(scope.op()), {scope.output_gradient(), scope.input(0), scope.input(1)});
  if (scope.needs_gradient(0)) scope.set_gradient(0, gradients[0]);
  if (scope.needs_gradient(1)) scope.set_gradient(1, gradients[1]);
}

}  // namespace

// A comparison and a product; backward the same twice, and a sum.
const OpDefinition prelu_definition = {.flops = flops_per_input_element<2>,
                                       .differentiate = differentiate_prelu,
                                       .in_place = in_place_over_first,
                                       .precision = Precision::follows_first,
                                       .is_cheap = true};
const OpDefinition prelu_backward_definition = {
    .flops = flops_per_input_element<5>, .in_place = in_place_over_first, .takes_scratch = true};

}  // namespace trainer
