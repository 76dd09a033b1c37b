#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace trainer {

/// The integer next to a number, or the furthest that there is; 0 for NaN.
inline std::int64_t nearest_integer(double number) {
  constexpr double limit = 0x1p63;
  if (std::isnan(number)) return 0;
  if (number >= limit) return std::numeric_limits<std::int64_t>::max();
  return number < -limit ? std::numeric_limits<std::int64_t>::min() : std::llround(number);
}

}  // namespace trainer
