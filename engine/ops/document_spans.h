#pragma once

#include <cstdint>
#include <optional>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Documents that stand behind one another in a sequence of tokens. One begins at the first token, at each
/// `document_token`, and where padding begins or ends: a run of `pad_token`, another one, is a document of its own.
struct DocumentSpansAttributes {
  std::int32_t document_token = 0;
  std::optional<std::int32_t> pad_token{};
  friend bool operator==(const DocumentSpansAttributes&, const DocumentSpansAttributes&) = default;
};

/// inputs: tokens i32 (N, T); outputs: spans i32 (N, T, 2), of each token the first of its document and the one behind
/// the last, and places i32 (N, T), how many tokens of its document stand before it.
/// Throws ShapeError for tokens of another rank.
Op document_spans_op(const TensorType& tokens, const DocumentSpansAttributes& attributes);

}  // namespace trainer
