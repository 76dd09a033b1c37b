#include "engine/ops/position_embedding.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"

namespace trainer {

Op position_embedding_op(const TensorType& x, std::int64_t length) {
  if (x.shape.rank() != 3)
    throw ShapeError(fmt::format(
        "position_embedding takes sequences of shape (batch, places, channels); its input is {}", x.shape.to_string()));
  if (x.shape[1] > length)
    throw ShapeError(fmt::format("position_embedding has {} places, and its input has {}", length, x.shape[1]));
  return {OpKind::position_embedding, std::monostate{}, {x, {DType::f32, {length, x.shape[2]}}}, {x}};
}

Op position_embedding_at_op(const Op& position_embedding) {
  Op op = position_embedding;
  const Shape& x = op.inputs[0].shape;
  op.inputs.push_back({DType::i32, {x[0], x[1]}});
  return op;
}

Op position_embedding_backward_op(const Op& position_embedding) {
  return {OpKind::position_embedding_backward,
          std::monostate{},
          {position_embedding.outputs[0]},
          {position_embedding.inputs[1]}};
}

namespace {

void differentiate_position_embedding(GradientScope& scope) {
  const Operand dy = scope.output_gradient();
  const Op& op = scope.op();
  if (scope.needs_gradient(1)) {
    if (op.inputs.size() == 3) {
      Op lookup = embedding_op(op.inputs[2], op.inputs[1].shape[0], op.inputs[1].shape[1]);
      lookup.outputs[0].dtype = op.outputs[0].dtype;
      scope.set_gradient(1, scope.emit(embedding_backward_op(lookup), {dy, scope.input(2)})[0]);
    } else {
      scope.set_gradient(1, scope.emit(position_embedding_backward_op(op), {dy})[0]);
    }
  }
  if (scope.needs_gradient(0)) scope.set_gradient(0, dy);
}

}  // namespace

const OpDefinition position_embedding_definition = {.flops = flops_per_input_element<1>,
                                                    .differentiate = differentiate_position_embedding,
                                                    .in_place = in_place_over_first,
                                                    .precision = Precision::follows_first,
                                                    .is_cheap = true};
const OpDefinition position_embedding_backward_definition = {.flops = flops_per_input_element<1>,
                                                             .role = Role::weight_gradient};

}  // namespace trainer
