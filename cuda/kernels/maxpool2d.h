#pragma once

#include "cuda/kernels/pool2d_shape.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// As an index: no element of the window.
inline constexpr std::uint8_t no_position = 255;

/// y: the largest element of each window, and `indices` (of y's shape): its position in the window, row by row. The
/// first of equals; a NaN is larger than all, the first of NaNs. Null indices are not stored. With ReLU (for windows of
/// at most 255 elements) y is 0 where it would be below, and the index `no_position` where y is not above 0.
/// Bytes: x and y once, indices 1 an output. FLOPs: kernel height · width an output.
void maxpool2d_forward(DType type, const void* x, void* y, std::uint8_t* indices, bool relu, const Pool2dShape& shape,
                       Stream stream);

/// dx: the sum of dy over the windows that took the element; every element is written. Bytes: dx, dy and indices once
/// (where windows overlap, more often from the cache). FLOPs: one for each window over each element of x.
void maxpool2d_backward(DType type, const void* dy, const std::uint8_t* indices, void* dx, const Pool2dShape& shape,
                        Stream stream);

}  // namespace trainer::cuda
