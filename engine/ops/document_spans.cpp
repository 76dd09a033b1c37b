#include "engine/ops/document_spans.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

Op document_spans_op(const TensorType& tokens, const DocumentSpansAttributes& attributes) {
  const Shape& shape = tokens.shape;
  if (shape.rank() != 2 || tokens.dtype != DType::i32)
    throw ShapeError(
        fmt::format("documents are found in rows of tokens (batch, tokens), not in {}", shape.to_string()));
  return {OpKind::document_spans,
          attributes,
          {tokens},
          {{DType::i32, {shape[0], shape[1], 2}}, {DType::i32, {shape[0], shape[1]}}}};
}

const OpDefinition document_spans_definition = {.flops = flops_per_input_element<0>, .is_cheap = true};

}  // namespace trainer
