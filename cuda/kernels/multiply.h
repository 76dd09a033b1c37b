#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y = a · b over `count` elements; y may be a or b. Bytes: three tensors once. FLOPs: 1 an element.
void multiply(DType type, const void* a, const void* b, void* y, std::int64_t count, Stream stream);

/// y (images, pixels, channels) = x · gate (images, channels); y may be x. Bytes: x and y once. FLOPs: 1 an element.
void multiply_gate(DType type, const void* x, const void* gate, void* y, std::int64_t images, std::int64_t pixels,
                   std::int64_t channels, Stream stream);

/// dgate (images, channels): the sum over the pixels of dy · x (images, pixels, channels), in f32. Bytes: dy and x
/// once. FLOPs: 2 an element.
void multiply_backward_gate(DType type, const void* dy, const void* x, void* dgate, std::int64_t images,
                            std::int64_t pixels, std::int64_t channels, Stream stream);

}  // namespace trainer::cuda
