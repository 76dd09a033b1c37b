#pragma once

#include <cstdint>

#include "engine/dtype.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

/// Rows of a weight, one for each index. Operands of numbers are f32 or of one 16-bit type; y and dy may be 16 bit
/// where the weight is f32, and a gradient of the weight is of a type of its own.
struct EmbeddingAttributes {
  DType gradient = DType::f32;  ///< what dW is
  bool adds = false;            ///< embedding_backward only: to what is there
  /// Where other ranks have the other rows: how many there are, of which W has those from first_row on. 0: W has all.
  std::int64_t all_rows = 0, first_row = 0;
  friend bool operator==(const EmbeddingAttributes&, const EmbeddingAttributes&) = default;
};

/// y[n] = W[index[n]], as torch.nn.Embedding; where an index is none of [0, num), NaN, and nothing is read. Of a part
/// of the rows y is 0 where another rank has the row, so that the sum over ranks is that of all. inputs: indices i32
/// (N[, T]), W (num, dim); outputs: y (N[, T], dim). Throws ShapeError for indices of another rank.
Op embedding_op(const TensorType& indices, std::int64_t num, std::int64_t dim);
/// dW[i] = the sum of dy over the places of index i, in their order and in f32, 0 where there are none; indices that
/// are none of [0, num) are left out. inputs: dy (N[, T], dim), indices; outputs: dW (num, dim).
Op embedding_backward_op(const Op& embedding);
/// The same sums, added to what is there.
/// inputs: dy, indices, dW [added to]; no outputs.
Op embedding_add_backward_op(const Op& backward);

/// Which rows of a table are here, of either op.
struct EmbeddingRows {
  std::int64_t first = 0, num = 0, all = 0;
};
EmbeddingRows embedding_rows(const Op& op);

/// Of a run: each operand once, but of the weight only the rows that indices name, at most.
std::int64_t embedding_bytes(const Op& embedding);
std::int64_t embedding_backward_bytes(const Op& backward);

}  // namespace trainer
