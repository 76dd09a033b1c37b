#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainer {

/// Where a range of a tensor's bytes lies among those that are held of it.
struct HeldRange {
  std::int64_t in_tensor = 0, in_buffer = 0, num_bytes = 0;
};

/// What a rank holds of bytes [offset, offset + num_bytes) of the tensor, one range behind the other in its buffer: of
/// an 8-bit moment (Note [8-bit moments]) codes, then the largest of their blocks; of others one range. Empty: nothing.
std::vector<HeldRange> held_of(const TensorPart& part, std::int64_t num_ranks, std::int64_t rank, std::int64_t offset,
                               std::int64_t num_bytes);

/// The type of a rank's part of a tensor.
TensorType part_type(const TensorPart& part, std::int64_t num_ranks, std::int64_t rank);

}  // namespace trainer
