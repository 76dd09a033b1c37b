#pragma once

#include <cstdint>

#include "cuda/kernels/row_parts.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// x (…, C) as (rows, columns).
struct LayerNormShape {
  std::int64_t rows = 0, columns = 0;
};

struct LayerNormForward {
  const void* x = nullptr;
  void* y = nullptr;              ///< may be x or the addend
  const void* addend = nullptr;   ///< of x's shape and type; null: nothing is added
  void* sum = nullptr;            ///< with an addend: x + addend, rounded to its type; may be x or the addend, not y
  const float* weight = nullptr;  ///< (columns); null: 1
  const float* bias = nullptr;    ///< (columns); null: 0
  float* mean = nullptr;          ///< (rows); null: none is subtracted, and rstd is of the squares' mean
  float* rstd = nullptr;          ///< (rows)
  double eps = 0;
};

/// mean and biased variance of each row; y = (x − mean) · rstd · weight + bias, of the sum where there is an addend.
/// One launch. Bytes: x, y, addend and sum once; what a row has beyond 1024 packs of 16 bytes (1024 elements where it
/// is not whole packs) is read three times, mostly from the cache. FLOPs: 10 an element, 11 with an addend.
void layernorm_forward(DType type, const LayerNormForward& operands, const LayerNormShape& shape, Stream stream);

struct LayerNormBackward {
  const void* dy = nullptr;
  const void* x = nullptr;      ///< the sum where there was an addend
  const float* mean = nullptr;  ///< null: none was subtracted
  const float* rstd = nullptr;
  const float* weight = nullptr;         ///< null: 1
  const void* added_gradient = nullptr;  ///< of dx's shape and type, added to it in f32; null: nothing
  void* dx = nullptr;                    ///< may be dy or the added gradient
  float* dweight = nullptr;              ///< null: not wanted, nor is dbias
  float* dbias = nullptr;                ///< null: not wanted
  void* workspace = nullptr;
};

/// Up to 4096 columns dx and the sums over the rows come of one pass over dy and x, by blocks whose 256 threads keep up
/// to 16 columns each. Above that, and where much is in so few rows that their blocks would leave most of a GPU idle,
/// both are read once for dx and once for the sums.
constexpr bool layernorm_backward_is_one_pass(const LayerNormShape& shape) {
  constexpr std::int64_t fewest_blocks = 64, few_elements = std::int64_t{1} << 17;
  const bool fills = whole_row_parts(shape.rows, shape.columns).num_parts >= fewest_blocks;
  return shape.columns <= 4096 && (fills || shape.rows * shape.columns <= few_elements);
}

constexpr RowParts layernorm_row_parts(const LayerNormShape& shape) {
  return layernorm_backward_is_one_pass(shape) ? whole_row_parts(shape.rows, shape.columns)
                                               : row_parts(shape.rows, shape.columns);
}

/// A pair of f32 for each part of the rows and each column, where there are several parts.
constexpr std::int64_t layernorm_gradient_workspace_bytes(const LayerNormShape& shape) {
  const RowParts parts = layernorm_row_parts(shape);
  return parts.num_parts > 1 ? 8 * parts.num_parts * shape.columns : 0;
}

/// dx = rstd · (g − Σg / columns − x̂ · Σ(g·x̂) / columns) with x̂ = (x − mean) · rstd, g = dy · weight and sums over the
/// row, of which Σg is left out without a mean; dweight = Σ dy·x̂ and dbias = Σ dy over the rows. One launch where it is
/// one pass or without weights, else two; and one more for the sums of several parts. Bytes: dy, x, dx and what is
/// added to it once, and the workspace twice; where it is not one pass dy and x twice, or without weights once, with
/// long rows as in the forward pass. FLOPs: 17 an element.
void layernorm_backward(DType type, const LayerNormBackward& operands, const LayerNormShape& shape, Stream stream);

}  // namespace trainer::cuda
