#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/copy_channels.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

/// Where rows of channels lie in longer ones: Note [Placed outputs] in engine/ops/placed.h. The whole row where the op
/// is not placed.
struct ChannelPlace {
  DType type = DType::f32;
  std::int64_t rows = 0, channels = 0;
  ChannelRange range;
  bool continues = false;

  explicit ChannelPlace(const Op& op)
      : type(op.outputs[0].dtype),
        rows(op.inputs[0].num_elements() / op.inputs[0].shape[-1]),
        channels(op.inputs[0].shape[-1]),
        range{op.outputs[0].shape[-1], op.placed_at < 0 ? 0 : op.placed_at},
        continues(continues_whole(op)) {}

  /// Of the first of the placed channels.
  void* address(const OperandAddresses& addresses) const {
    return static_cast<std::byte*>(addresses.outputs[0]) + range.first * static_cast<std::int64_t>(size_of(type));
  }
  /// What the whole's other channels hold, where the output does not lie over the whole so far.
  void copy_others(const OperandAddresses& addresses, Stream stream) const;
};

}  // namespace trainer::cuda
