#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/simd.h"

namespace trainer {

/// Elementary functions without branches, calls or tables, so that a loop over them vectorises. Relative errors are
/// against the exact value and hold with and without fused multiply-add. NaN stays NaN.

/// e^x = e^r · 2^n with |r| ≤ ln 2 / 2.
struct ReducedExponential {
  float of_rest;          ///< e^r
  std::int32_t exponent;  ///< n
};
/// Of a number that is bounded, so that n fits what it is used for.
TRAINER_SIMD_INLINE ReducedExponential reduced_exponential(float bounded) {
  // Cody and Waite's reduction: x = n ln 2 + r, |r| ≤ ln 2 / 2; ln 2 in two parts, the first with few bits.
  constexpr float round_bias = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer in the low bits
  const float biased = bounded * 1.44269504F + round_bias;
  const float n = biased - round_bias;
  const float r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;
  // e^r = 1 + r + r²·p(r), minimax (Cephes expf)
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return {(p * r * r + r) + 1.0F, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(biased) - 0x4B400000U)};
}
/// 2^k of a normal number.
TRAINER_SIMD_INLINE float power_of_two(std::int32_t k) { return std::bit_cast<float>((k + 127) << 23); }

/// e^x within 2e-7; inf above 88.73, 0 below −104.
TRAINER_SIMD_INLINE float vector_exp(float x) {
  const float above = x > 89.0F ? 89.0F : x;
  const ReducedExponential e = reduced_exponential(above < -104.5F ? -104.5F : above);
  // 2^n in two factors: n reaches 128 and −151, which no normal number's exponent holds.
  const std::int32_t half = e.exponent >> 1;
  const float result = e.of_rest * power_of_two(half) * power_of_two(e.exponent - half);
  return x != x ? x : result;
}

/// e^x within 2e-7 for x up to 88, where a softmax is all that it is for; 0 below −87.
TRAINER_SIMD_INLINE float vector_exp_of_difference(float x) {
  const ReducedExponential e = reduced_exponential(x < -87.0F ? -87.0F : x);
  return x < -87.0F ? 0.0F : e.of_rest * power_of_two(e.exponent);
}

TRAINER_SIMD_INLINE float vector_sigmoid(float x) { return 1.0F / (1.0F + vector_exp(-x)); }

/// tanh x within 3e-7 (N. Juffa's minimax polynomial below 0.55).
TRAINER_SIMD_INLINE float vector_tanh(float x) {
  const float a = std::fabs(x);
  const float s = x * x;
  float p = 1.57394409e-2F;
  p = p * s - 5.23025580e-2F;
  p = p * s + 1.33152977e-1F;
  p = p * s - 3.33327681e-1F;
  const float small = p * s * x + x;
  const float large = std::copysign(1.0F - 2.0F / (vector_exp(2.0F * a) + 1.0F), x);
  return a > 0.55F ? large : small;
}

/// erf x within 3e-7 (N. Juffa's minimax polynomials).
TRAINER_SIMD_INLINE float vector_erf(float x) {
  const float t = std::fabs(x);
  const float s = x * x;
  float r = -1.72853470e-5F * t + 3.83197126e-4F;
  const float u = -3.88396438e-3F * t + 2.42546219e-2F;
  r = r * s + u;
  r = r * t - 1.06777877e-1F;
  r = r * t - 6.34846687e-1F;
  r = r * t - 1.28717512e-1F;
  r = r * t - t;
  const float large = std::copysign(1.0F - vector_exp(r < -104.0F ? -104.0F : r), x);
  float q = -5.96761703e-4F;
  q = q * s + 4.99119423e-3F;
  q = q * s - 2.67681349e-2F;
  q = q * s + 1.12819925e-1F;
  q = q * s - 3.76125336e-1F;
  q = q * s + 1.28379166e-1F;
  const float small = q * x + x;
  return t > 0.927734375F ? large : small;
}

}  // namespace trainer
