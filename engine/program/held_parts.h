#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainer {

/// Where a range of a tensor's bytes lies among those that are held of it.
struct HeldRange {
  std::int64_t in_tensor = 0, in_buffer = 0, num_bytes = 0;
};

/// What the rank of a layout holds of bytes [offset, offset + num_bytes) of the tensor, one range behind the other in
/// its buffer: of an 8-bit moment (Note [8-bit moments]) codes, then the largest of their blocks; of others one range,
/// or where layers are cut some of each row.
/// Empty: nothing.
std::vector<HeldRange> held_of(const TensorPart& part, const RankLayout& ranks, std::int64_t offset,
                               std::int64_t num_bytes);

/// Whether it gives others what it holds: of those that hold the same the first does.
bool gives_part(const TensorPart& part, const RankLayout& ranks);

/// The type of what ranks that share a batch hold together of a tensor, with the rank's part of a layer.
TensorType layer_part_type(const TensorPart& part, const RankLayout& ranks);

/// The type of its part of a tensor.
TensorType part_type(const TensorPart& part, const RankLayout& ranks);

}  // namespace trainer
