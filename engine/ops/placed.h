#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Placed outputs]
// ~~~~~~~~~~~~~~~~~~~~~
// Rows of channels, such as an image's pixels, may be a range of the channels of longer rows: so the parts of a
// concatenation lie in it. An op with Op::placed_at ≥ 0 writes its first output there. That output's type is that of
// the whole. What its other channels hold comes from the op's last input, which is of the same type and whose memory
// the output takes over; or, where the op has no such input, it is for later ops to write, and undefined until then.
//
//   batchnorm2d            x → y[…, 0:64]                y is allocated here
//   activation             x, y → y[…, 64:96]            written into it
//   place_channels         x, y → y[…, 96:128]           what another op has made is copied into it
//
// Only ops whose definition says so (OpDefinition::can_be_placed) are placed.

/// `op` with its output in the channels of `whole` from `first` on; behind its inputs that tensor so far, if it
/// `continues` one.
Op placed_op(Op op, const TensorType& whole, std::int64_t first, bool continues);
/// inputs: x[, the whole so far]; outputs: the whole, with x placed in it.
Op place_channels_op(const TensorType& x, const TensorType& whole, std::int64_t first, bool continues);

/// Whether a placed op's last input is the whole so far.
bool continues_whole(const Op& op);

}  // namespace trainer
