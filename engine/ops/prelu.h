#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// y = x where x is above 0, else slope · x with a learned slope, one or one for each channel (He et al., 2015), as
/// PyTorch's PReLU. The channels are the last dimension.
/// Throws ShapeError where there are several slopes and not as many channels.
/// inputs: x, weight (num), f32; outputs: y.
Op prelu_op(const TensorType& x, std::int64_t num);
/// inputs: dy, x, weight; outputs: dx, which may be stored over dy, dweight (num), f32: the sum of dy · x over all x
/// that are not above 0.
Op prelu_backward_op(const Op& prelu);

}  // namespace trainer
