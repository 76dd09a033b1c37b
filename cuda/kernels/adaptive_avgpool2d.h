#pragma once

#include "cuda/kernels/resized_shape.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

// Row i of y is the mean over the rows of x from ⌊i·H/H'⌋ up to ⌈(i+1)·H/H'⌉, columns alike; H·H' and W·W' are below
// 2^31.

/// y: the mean of each window. Bytes: x and y once (what two windows share, twice, from the cache). FLOPs: one for each
/// element of each window.
void adaptive_avgpool2d_forward(DType type, const void* x, void* y, const ResizedShape& shape, Stream stream);

/// dx: each element's share of dy over the windows that have it; every element is written. Bytes and FLOPs as forward.
void adaptive_avgpool2d_backward(DType type, const void* dy, void* dx, const ResizedShape& shape, Stream stream);

}  // namespace trainer::cuda
