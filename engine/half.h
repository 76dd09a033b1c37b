#pragma once

#include <bit>
#include <cstdint>

#include "engine/dtype.h"
#include "engine/simd.h"

namespace trainer {

// The 16-bit floating-point types on the CPU: storage that is converted from and to f32, with the bits of CUDA's
// conversions. Rounded to nearest, ties to even; what is too large becomes infinite; subnormals are kept; every NaN
// becomes 0x7FFF. Without branches, so that a loop over the conversions vectorises.

constexpr bool is_16_bit(DType type) { return type == DType::f16 || type == DType::bf16; }

/// IEEE binary16: 1 sign bit, 5 of exponent, 10 of fraction.
struct Float16 {
  std::uint16_t bits = 0;
};
/// The upper half of an f32: 1 sign bit, 8 of exponent, 7 of fraction.
struct BFloat16 {
  std::uint16_t bits = 0;
};

TRAINER_SIMD_INLINE float to_float(float value) { return value; }

TRAINER_SIMD_INLINE float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

TRAINER_SIMD_INLINE float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  const std::uint32_t rebias = magnitude < 0x7C00U ? 127 - 15 : 255 - 31;
  const std::uint32_t normal = (magnitude << 13) + (rebias << 23);
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  return std::bit_cast<float>(sign | (magnitude < 0x0400U ? subnormal : normal));
}

TRAINER_SIMD_INLINE std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFU : rounded);
}

TRAINER_SIMD_INLINE std::uint16_t float16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Beside 0.5 a float's last bit is 2^-24, the unit of subnormals: the addition does the rounding.
  const std::uint32_t below_normal = magnitude < 0x38800000U ? magnitude : 0;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(below_normal) + 0.5F) - 0x3F000000U;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0x0FFFU + ((magnitude >> 13) & 1U)) >> 13;
  std::uint32_t rounded = magnitude < 0x38800000U ? subnormal : normal;
  // From 65520 on, halfway between the largest number and what would follow it.
  rounded = magnitude >= 0x477FF000U ? 0x7C00U : rounded;
  rounded |= (bits >> 16) & 0x8000U;
  return static_cast<std::uint16_t>(magnitude > 0x7F800000U ? 0x7FFFU : rounded);
}

/// `value` as a T: float, Float16 or BFloat16.
template <typename T>
TRAINER_SIMD_INLINE T from_float(float value) {
  return value;
}
template <>
TRAINER_SIMD_INLINE Float16 from_float<Float16>(float value) {
  return {float16_bits(value)};
}
template <>
TRAINER_SIMD_INLINE BFloat16 from_float<BFloat16>(float value) {
  return {bfloat16_bits(value)};
}

/// to[i] = from[i] for i in [0, count); `from` holds f32, f16 or bf16 as `type` says and does not overlap `to`.
void widen(DType type, const void* from, float* to, std::int64_t count);
/// to[i] = from[i], rounded to `type`: f32, f16 or bf16; `to` does not overlap `from`.
void narrow(DType type, const float* from, void* to, std::int64_t count);

}  // namespace trainer
