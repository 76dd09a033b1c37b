#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace trainer {

// Note [Exact sums]
// ~~~~~~~~~~~~~~~~~
// A sum of f64 depends on its order, one of whole numbers does not. So what is to be the same however many ranks add it
// up is added as one long whole number, in units of 2^-350 and in digits of 32 bits that have 64 bits of room each
// (U. Kulisch, "Advanced arithmetic for the digital computer", 1999): nothing is rounded until the total is read.
// Digits may be added in any order and across ranks, less than 2^31 times. It has room for numbers from 0 to 2^264,
// which sums of a few thousand squares of f32 are; of what is not finite it counts how often that came.

inline constexpr int exact_sum_digits = 20;
inline constexpr int exact_sum_infinite = exact_sum_digits, exact_sum_nan = exact_sum_digits + 1;
/// i64 that an exact sum has.
inline constexpr int num_exact_sum = exact_sum_digits + 2;

/// Adds a number that is not negative; `stride`: from one i64 of the sum to the next.
constexpr void add_exactly(double value, std::int64_t* sum, std::int64_t stride = 1) {
  constexpr int mantissa_bits = 52, special = 0x7FF, bias = 1023 + mantissa_bits, lowest = -350;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & special;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  if (exponent == special) {
    sum[(fraction == 0 ? exact_sum_infinite : exact_sum_nan) * stride] += 1;
    return;
  }
  const int place = exponent - bias - lowest;
  if (place < 0) return;  // 0: squares of f32, and so their sums, are multiples of 2^-298
  const std::uint64_t mantissa = fraction | std::uint64_t{1} << mantissa_bits;
  const int digit = place / 32, shift = place % 32;
  const std::uint64_t low = mantissa << shift, high = shift == 0 ? 0 : mantissa >> (64 - shift);
  sum[digit * stride] += static_cast<std::int64_t>(low & 0xFFFFFFFFU);
  sum[(digit + 1) * stride] += static_cast<std::int64_t>(low >> 32U);
  sum[(digit + 2) * stride] += static_cast<std::int64_t>(high);
}

/// What was added, rounded; the same for the same sum, however its digits have come about.
constexpr double exact_total(const std::int64_t* sum) {
  if (sum[exact_sum_nan] > 0) return std::bit_cast<double>(std::uint64_t{0x7FF8} << 48U);
  if (sum[exact_sum_infinite] > 0) return std::bit_cast<double>(std::uint64_t{0x7FF} << 52U);
  std::array<std::uint32_t, exact_sum_digits> digits{};
  std::int64_t carry = 0;
  for (int i = 0; i < exact_sum_digits; ++i) {
    const std::int64_t digit = sum[i] + carry;
    digits[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(digit & 0xFFFFFFFF);
    carry = digit >> 32;
  }
  double total = static_cast<double>(carry);
  for (int i = exact_sum_digits; i-- > 0;) total = total * 0x1p32 + digits[static_cast<std::size_t>(i)];
  return total * 0x1p-350;
}

}  // namespace trainer
