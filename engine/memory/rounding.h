#pragma once

#include <cstdint>
#include <limits>

namespace trainer {

/// Up to the next multiple, or the highest one where that would overflow: no source has that much.
constexpr std::int64_t round_up(std::int64_t num_bytes, std::int64_t multiple) {
  const std::int64_t highest = std::numeric_limits<std::int64_t>::max() / multiple * multiple;
  return num_bytes > highest ? highest : (num_bytes + (multiple - 1)) / multiple * multiple;
}

/// Of the blocks of all allocators.
inline constexpr std::int64_t least_block_bytes = 512;

/// What a request of so many bytes takes at least: whole blocks, and one for nothing.
constexpr std::int64_t round_to_blocks(std::int64_t num_bytes) {
  return round_up(num_bytes < least_block_bytes ? least_block_bytes : num_bytes, least_block_bytes);
}

}  // namespace trainer
