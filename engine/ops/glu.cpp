#include "engine/ops/glu.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "engine/ops/elementwise.h"

namespace trainer {

Op glu_op(const TensorType& gate, const TensorType& up, const GluAttributes& attributes) {
  require_internal(gate == up, "a gated unit's halves are of one type");
  return {OpKind::glu, attributes, {gate, up}, {gate}};
}

Op packed_glu_op(const TensorType& x, const GluAttributes& attributes) {
  if (x.shape[-1] % 2 != 0)
    throw ShapeError(
        fmt::format("a gated unit halves the last dimension, which must be even; its input is {}. Gates and what they "
                    "gate can be two layers: from: [gate, up]",
                    x.shape.to_string()));
  TensorType y = x;
  y.shape[-1] /= 2;
  return {OpKind::glu, attributes, {x}, {y}};
}

Op glu_backward_op(const Op& glu) {
  Op op{OpKind::glu_backward, glu.attributes, glu.outputs, glu.inputs};
  op.inputs.insert(op.inputs.end(), glu.inputs.begin(), glu.inputs.end());
  return op;
}

GluLayout glu_layout(const Op& op) {
  const bool forward = op.kind == OpKind::glu;
  const TensorType& y = forward ? op.outputs[0] : op.inputs[0];
  const std::int64_t columns = y.shape[-1];
  const std::int64_t rows = columns == 0 ? 0 : y.num_elements() / columns;
  const bool packed = op.inputs.size() == (forward ? 1U : 2U);
  return {.packed = packed, .rows = rows, .columns = columns, .row_elements = packed ? 2 * columns : columns};
}

namespace {

std::int64_t glu_flops(const Op& op) { return flops_product(2, op.outputs[0].num_elements(), 1); }
std::int64_t glu_backward_flops(const Op& op) { return flops_product(5, op.inputs[0].num_elements(), 1); }

bool takes_exponentials_of_gates(const Op&) { return true; }

void differentiate_glu(GradientScope& scope) {
  const auto num_inputs = static_cast<int>(scope.op().inputs.size());
  std::vector<Operand> operands = {scope.output_gradient()};
  bool is_needed = false;
  for (int i = 0; i < num_inputs; ++i) {
    operands.push_back(scope.input(i));
    is_needed = is_needed || scope.needs_gradient(i);
  }
  if (!is_needed) return;
  const std::vector<Operand> gradients = scope.emit(glu_backward_op(scope.op()), operands);
  for (int i = 0; i < num_inputs; ++i)
    if (scope.needs_gradient(i)) scope.set_gradient(i, gradients[static_cast<std::size_t>(i)]);
}

constexpr std::array<InPlace, 1> gradient_over_packed = {{{.output = 0, .input = 1}}};
constexpr std::array<InPlace, 2> gradients_over_halves = {{{.output = 0, .input = 0}, {.output = 1, .input = 2}}};

std::span<const InPlace> glu_in_place(const Op& op) {
  if (glu_layout(op).packed) return {};
  return in_place_over_first;
}
std::span<const InPlace> glu_backward_in_place(const Op& op) {
  if (glu_layout(op).packed) return gradient_over_packed;
  return gradients_over_halves;
}

}  // namespace

const OpDefinition glu_definition = {.flops = glu_flops,
                                     .differentiate = differentiate_glu,
                                     .in_place_of = glu_in_place,
                                     .precision = Precision::follows,
                                     .is_slow = takes_exponentials_of_gates,
                                     .is_cheap = true};
const OpDefinition glu_backward_definition = {
    .flops = glu_backward_flops, .in_place_of = glu_backward_in_place, .is_slow = takes_exponentials_of_gates};

}  // namespace trainer
