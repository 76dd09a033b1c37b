#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/kernels.h"

namespace trainer {

/// Where rows of channels lie in longer ones: Note [Placed outputs] in engine/ops/placed.h.
struct ChannelPlace {
  std::int64_t rows = 0, channels = 0;       ///< that are placed
  std::int64_t row_channels = 0, first = 0;  ///< of the whole
  std::int64_t element_bytes = 4;
  bool continues = false;

  explicit ChannelPlace(const Op& op);

  /// Of a placed row of the whole at `whole`.
  std::byte* row(void* whole, std::int64_t index) const {
    return static_cast<std::byte*>(whole) + (index * row_channels + first) * element_bytes;
  }
  /// What the whole's other channels hold, where the output does not lie over the whole so far.
  void copy_others(const OperandAddresses& addresses, int num_threads) const;
};

}  // namespace trainer
