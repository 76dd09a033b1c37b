#include "engine/ops/embedding.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/elementwise.h"

namespace trainer {

Op embedding_op(const TensorType& indices, std::int64_t num, std::int64_t dim) {
  const Shape& shape = indices.shape;
  if (shape.rank() > 2)
    throw ShapeError(
        fmt::format("embedding takes one index or a row of them for each sample; its input is {}", shape.to_string()));
  const TensorType y{DType::f32, shape.rank() == 1 ? Shape{shape[0], dim} : Shape{shape[0], shape[1], dim}};
  return {OpKind::embedding, EmbeddingAttributes{}, {indices, {DType::f32, {num, dim}}}, {y}};
}

Op embedding_backward_op(const Op& embedding) {
  const auto& attributes = attributes_of<EmbeddingAttributes>(embedding);
  return {OpKind::embedding_backward,
          attributes,
          {embedding.outputs[0], embedding.inputs[0]},
          {{attributes.gradient, embedding.inputs[1].shape}}};
}

Op embedding_add_backward_op(const Op& backward) {
  Op op = backward;
  std::get<EmbeddingAttributes>(op.attributes).adds = true;
  op.inputs.push_back(op.outputs[0]);
  op.outputs.clear();
  return op;
}

EmbeddingRows embedding_rows(const Op& op) {
  const auto& attributes = attributes_of<EmbeddingAttributes>(op);
  const bool is_backward = op.kind == OpKind::embedding_backward;
  const TensorType& table = !is_backward ? op.inputs[1] : attributes.adds ? op.inputs[2] : op.outputs[0];
  const std::int64_t num = table.shape[0];
  return {.first = attributes.first_row, .num = num, .all = attributes.all_rows > 0 ? attributes.all_rows : num};
}

std::int64_t embedding_bytes(const Op& embedding) {
  const TensorType &weight = embedding.inputs[1], &y = embedding.outputs[0];
  const auto read = static_cast<std::int64_t>(size_of(weight.dtype)) * y.num_elements();
  return embedding.inputs[0].num_bytes() + std::min(weight.num_bytes(), read) + y.num_bytes();
}

std::int64_t embedding_backward_bytes(const Op& backward) {
  const std::int64_t given = backward.inputs[0].num_bytes() + backward.inputs[1].num_bytes();
  if (!attributes_of<EmbeddingAttributes>(backward).adds) return given + backward.outputs[0].num_bytes();
  const TensorType& sums = backward.inputs[2];
  const auto changed = static_cast<std::int64_t>(size_of(sums.dtype)) * backward.inputs[0].num_elements();
  return given + 2 * std::min(sums.num_bytes(), changed);
}

namespace {

std::int64_t no_flops(const Op&) { return 0; }

void differentiate_embedding(GradientScope& scope) {
  if (!scope.needs_gradient(1)) return;
  scope.set_gradient(1, scope.emit(embedding_backward_op(scope.op()), {scope.output_gradient(), scope.input(0)})[0]);
}

bool adds_to_gradient(const Op& op, int position) {
  return attributes_of<EmbeddingAttributes>(op).adds && position == 2;
}

}  // namespace

const OpDefinition embedding_definition = {.flops = no_flops,
                                           .num_bytes = embedding_bytes,
                                           .differentiate = differentiate_embedding,
                                           .precision = Precision::lookup,
                                           .is_cheap = true};
const OpDefinition embedding_backward_definition = {.flops = flops_per_input_element<1>,
                                                    .num_bytes = embedding_backward_bytes,
                                                    .adding = embedding_add_backward_op,
                                                    .role = Role::weight_gradient,
                                                    .modifies = adds_to_gradient};

}  // namespace trainer
