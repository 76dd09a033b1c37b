#pragma once

#include <bit>
#include <cstdint>

#include "engine/philox.h"

namespace trainer {

// Rounding at random: up with the probability that keeps the mean, so that updates far smaller than the last bit of a
// bf16 weight still move it (Gupta et al., "Deep learning with limited numerical precision", ICML 2015).

/// Elements whose bits one block of Philox holds: 16 bits each.
inline constexpr int rounding_elements = 8;

/// The 16 bits that round element `element` of `stream`.
constexpr std::uint32_t rounding_bits(const PhiloxStream& stream, std::uint64_t element) {
  const std::uint32_t word = stream.words(element / rounding_elements)[element % rounding_elements / 2];
  return element % 2 == 0 ? word & 0xFFFFU : word >> 16;
}

/// The bf16 next to `value` below or above in magnitude, above where the bits that are cut off and `random`, uniform in
/// [0, 2^16), sum up to 2^16 or more. What bf16 holds stays as it is; NaN becomes 0x7FFF.
constexpr std::uint16_t round_stochastically(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFU : (bits + random) >> 16);
}

}  // namespace trainer
