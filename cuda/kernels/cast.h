#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y[i] = x[i] as `to`, rounded to nearest, ties to even; f32, f16 and bf16. y may be x where both are as wide.
/// Bytes: x and y once.
void cast(DType from, const void* x, DType to, void* y, std::int64_t count, Stream stream);

}  // namespace trainer::cuda
