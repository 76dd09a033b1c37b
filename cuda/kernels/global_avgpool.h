#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y (images, channels): the mean of x (images, pixels, channels) over the pixels. Bytes: x and y once. FLOPs: one an
/// element of x.
void global_avgpool_forward(DType type, const void* x, void* y, std::int64_t images, std::int64_t pixels,
                            std::int64_t channels, Stream stream);

/// dx (images, pixels, channels): dy (images, channels) / pixels. Bytes: dy and dx once. FLOPs: one an element of dx.
void global_avgpool_backward(DType type, const void* dy, void* dx, std::int64_t images, std::int64_t pixels,
                             std::int64_t channels, Stream stream);

}  // namespace trainer::cuda
