#pragma once

#include <cstdint>
#include <span>

#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

struct BroadcastAttributes {
  RankGroup ranks{};
  friend bool operator==(const BroadcastAttributes&, const BroadcastAttributes&) = default;
};

/// Tensors become those of the first of `ranks`. inputs: the tensors, of any type [modified]; no outputs.
Op broadcast_op(std::span<const TensorType> tensors, const RankGroup& ranks);

}  // namespace trainer
