#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/half.h"

namespace trainer {

/// What stands where an index names no row of a table: NaN in each of `count` numbers.
inline void write_no_row(DType type, std::byte* row, std::int64_t count) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t i = 0; i < count; ++i) narrow(type, &none, row + i * static_cast<std::int64_t>(size_of(type)), 1);
}

}  // namespace trainer
