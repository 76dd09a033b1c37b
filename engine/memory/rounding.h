#pragma once

#include <cstdint>
#include <limits>

namespace trainer {

/// Up to the next multiple, or the highest one where that would overflow: no source has that much.
constexpr std::int64_t round_up(std::int64_t num_bytes, std::int64_t multiple) {
  const std::int64_t highest = std::numeric_limits<std::int64_t>::max() / multiple * multiple;
  return num_bytes > highest ? highest : (num_bytes + (multiple - 1)) / multiple * multiple;
}

}  // namespace trainer
