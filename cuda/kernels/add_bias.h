#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y (rows, columns) += bias (columns), both of `type`. Bytes: y read and written. FLOPs: 1 an element.
void add_bias(DType type, const void* bias, void* y, std::int64_t rows, std::int64_t columns, Stream stream);

}  // namespace trainer::cuda
