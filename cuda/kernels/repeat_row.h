#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y (rows, columns), each row of which is `row`. Bytes: y once. FLOPs: none.
void repeat_row(DType type, const void* row, void* y, std::int64_t rows, std::int64_t columns, Stream stream);

/// sum (columns) = the sum of the rows of x (rows, columns), made in f32 and, over groups of rows, in f64; for some
/// thousand rows at most. Bytes: x once. FLOPs: 1 an element.
void sum_rows(DType type, const void* x, void* sum, std::int64_t rows, std::int64_t columns, Stream stream);

}  // namespace trainer::cuda
