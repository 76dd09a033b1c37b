#pragma once

#include <cstdint>
#include <vector>

#include "engine/batch_part.h"
#include "engine/shape.h"

namespace trainer {

/// How ranks that share a layer cut a tensor of it: Note [Cut layers] in engine/program/tensor/cut_layers.h.
struct AxisCut {
  int axis = 0;
  /// Lengths, one behind the other along the axis, of each of which a rank has a part, as of a batch (part_of_batch).
  /// Empty: the first rank has the tensor, and the others nothing.
  std::vector<std::int64_t> sections{};

  /// What the rank at a place of so many has of the axis, one range behind the other.
  std::vector<BatchPart> ranges(const Shape& whole, std::int64_t num_ranks, std::int64_t place) const;
  /// The shape of that; of nothing {0}.
  Shape own_shape(const Shape& whole, std::int64_t num_ranks, std::int64_t place) const;

  friend bool operator==(const AxisCut&, const AxisCut&) = default;
};

}  // namespace trainer
