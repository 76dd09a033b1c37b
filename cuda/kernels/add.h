#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y = a + b over `count` elements, or where `relu` max(a + b, 0), NaN staying NaN; y may be a or b. Bytes: three
/// tensors once. FLOPs: 1 an element.
void add(DType type, bool relu, const void* a, const void* b, void* y, std::int64_t count, Stream stream);

/// y = a + b over `count` numbers of f64; y may be a or b. Bytes: three tensors once. FLOPs: 1 an element.
void add_doubles(const double* a, const double* b, double* y, std::int64_t count, Stream stream);

}  // namespace trainer::cuda
