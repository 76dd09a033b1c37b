#pragma once

#include <cstdint>
#include <span>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Throws ShapeError unless the inputs, two or more of one element type, are alike but for their last dimension, the
/// channels of images.
/// inputs: x0, x1, …; outputs: y, whose channels are those of x0, then those of x1, and so on.
Op concat_op(std::span<const TensorType> inputs);

struct ChannelSliceAttributes {
  std::int64_t first = 0;
  friend bool operator==(const ChannelSliceAttributes&, const ChannelSliceAttributes&) = default;
};

/// inputs: x (…, C); outputs: y (…, channels), the channels of x from `first` on.
Op channel_slice_op(const TensorType& x, std::int64_t channels, const ChannelSliceAttributes& attributes);
/// inputs: dy (…, channels); outputs: dx (…, C), 0 outside the slice.
Op channel_slice_backward_op(const Op& channel_slice);

}  // namespace trainer
