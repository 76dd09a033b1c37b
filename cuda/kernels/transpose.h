#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y (batch, columns, rows) = x (batch, rows, columns) with each matrix transposed. y may not be x.
/// Bytes: x and y once. FLOPs: none.
void transpose(DType type, const void* x, void* y, std::int64_t batch, std::int64_t rows, std::int64_t columns,
               Stream stream);

}  // namespace trainer::cuda
