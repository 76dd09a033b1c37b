#pragma once

#include "cuda/kernels/pool2d_shape.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y: the mean of each window; its sum is divided by the elements of the window inside the padded image where
/// `count_include_pad`, else inside the image. Bytes: x and y once (where windows overlap, x more often from the
/// cache). FLOPs: kernel height · width an output.
void avgpool2d_forward(DType type, const void* x, void* y, const Pool2dShape& shape, bool count_include_pad,
                       Stream stream);

/// dx: each element's share of dy over the windows that cover it; every element is written. Bytes and FLOPs as forward.
void avgpool2d_backward(DType type, const void* dy, void* dx, const Pool2dShape& shape, bool count_include_pad,
                        Stream stream);

}  // namespace trainer::cuda
