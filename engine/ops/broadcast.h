#pragma once

#include <cstdint>
#include <span>

#include "engine/shape.h"

namespace trainer {

struct Op;

struct BroadcastAttributes {
  std::int64_t num_ranks = 1;
  friend bool operator==(const BroadcastAttributes&, const BroadcastAttributes&) = default;
};

/// Tensors become those of rank 0. inputs: the tensors, of any type [modified]; no outputs.
Op broadcast_op(std::span<const TensorType> tensors, std::int64_t num_ranks);

}  // namespace trainer
