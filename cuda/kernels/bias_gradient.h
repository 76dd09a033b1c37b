#pragma once

#include <cstdint>

#include "cuda/kernels/row_parts.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// One f32 for each part of the rows and each column; 0 where one part is all.
constexpr std::int64_t bias_gradient_workspace_bytes(std::int64_t rows, std::int64_t columns) {
  const std::int64_t num_parts = row_parts(rows, columns).num_parts;
  return num_parts == 1 ? 0 : 4 * num_parts * columns;
}

struct BiasGradientOptions {
  bool f32_result = false;  ///< db is f32, whatever the type of dy
  bool adds = false;        ///< to what db holds
};

/// db (columns) = the sum over the rows of dy (rows, columns), both of `type`; sums of f32 over parts of the rows,
/// added up in f64. One launch where the rows are one part, else two. Bytes: dy once, and the workspace, at most an
/// eighth of f32 dy, twice. FLOPs: 1 an element.
void bias_gradient(DType type, const void* dy, void* db, std::int64_t rows, std::int64_t columns, void* workspace,
                   Stream stream, const BiasGradientOptions& options = {});

}  // namespace trainer::cuda
