#include "engine/ops/multiply.h"

#include <fmt/format.h>

#include <span>

#include "engine/ops/elementwise.h"

namespace trainer {

bool is_gate(const TensorType& x, const TensorType& gate) {
  if (x.shape.rank() != 4 || x.shape == gate.shape) return false;
  const std::int64_t images = x.shape[0], channels = x.shape[3];
  return gate.shape == Shape{images, channels} || gate.shape == Shape{images, 1, 1, channels};
}

Op multiply_op(const TensorType& x, const TensorType& factor) {
  if (x.shape != factor.shape && !is_gate(x, factor))
    throw ShapeError(
        fmt::format("multiply takes factors of one shape, or (batch, channels) or (batch, 1, 1, channels) "
                    "behind (batch, height, width, channels), not {} and {}",
                    x.shape.to_string(), factor.shape.to_string()));
  return {OpKind::multiply, std::monostate{}, {x, factor}, {x}};
}

Op multiply_backward_gate_op(const Op& multiply) {
  return {OpKind::multiply_backward_gate,
          std::monostate{},
          {multiply.outputs[0], multiply.inputs[0]},
          {multiply.inputs[1]}};
}

namespace {

/// The gradient of x comes last, so that it can be stored over dy.
void differentiate_multiply(GradientScope& scope) {
  const Op& op = scope.op();
  const Operand dy = scope.output_gradient();
  if (scope.needs_gradient(1)) {
    const bool gates = is_gate(op.inputs[0], op.inputs[1]);
    Op gradient = gates ? multiply_backward_gate_op(op) : multiply_op(op.outputs[0], op.inputs[0]);
    scope.set_gradient(1, scope.emit(std::move(gradient), {dy, scope.input(0)})[0]);
  }
  if (scope.needs_gradient(0))
    scope.set_gradient(0, scope.emit(multiply_op(op.outputs[0], op.inputs[1]), {dy, scope.input(1)})[0]);
}

std::span<const InPlace> multiply_in_place(const Op& op) {
  if (is_gate(op.inputs[0], op.inputs[1])) return in_place_over_first;
  return in_place_over_either;
}

}  // namespace

const OpDefinition multiply_definition = {.flops = flops_per_input_element<1>,
                                          .differentiate = differentiate_multiply,
                                          .in_place_of = multiply_in_place,
                                          .precision = Precision::follows,
                                          .is_cheap = true};
const OpDefinition multiply_backward_gate_definition = {.flops = flops_per_input_element<2>};

}  // namespace trainer
