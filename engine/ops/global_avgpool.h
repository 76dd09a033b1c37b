#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// inputs: x (N, H, W, C); outputs: y (N, C), the mean over H and W.
Op global_avgpool_op(const TensorType& x);
/// inputs: dy (N, C); outputs: dx (N, H, W, C).
Op global_avgpool_backward_op(const Op& global_avgpool);

}  // namespace trainer
