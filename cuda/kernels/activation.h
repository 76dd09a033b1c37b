#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"
#include "engine/ops/activation.h"

namespace trainer::cuda {

/// y = function(x) over `count` elements; y may be x. Bytes: x and y once. FLOPs: 1 to some 20 an element.
void activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y, std::int64_t count,
                        Stream stream);

/// The same over (rows, channels), whose results lie in rows of `y_channels`. Bytes: x and y once.
void placed_activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y,
                               std::int64_t rows, std::int64_t channels, std::int64_t y_channels, Stream stream);

/// dx = dy · function'(·), from y or x as gradient_reads_output tells; dx may be dy. Bytes: three tensors once.
void activation_backward(DType type, const ActivationAttributes& attributes, const void* dy, const void* y_or_x,
                         void* dx, std::int64_t count, Stream stream);

}  // namespace trainer::cuda
