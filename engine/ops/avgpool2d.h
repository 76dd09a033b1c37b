#pragma once

#include "engine/ops/maxpool2d.h"

namespace trainer {

/// inputs: x (N, H, W, C); outputs: y (N, H', W', C).
Op avgpool2d_op(const TensorType& x, const Pool2dAttributes& attributes);
/// inputs: dy; outputs: dx.
Op avgpool2d_backward_op(const Op& avgpool2d);

}  // namespace trainer
