#pragma once

#include "engine/cpu/vector_math.h"
#include "engine/simd.h"

namespace trainer::activations {

inline constexpr float sqrt_half = 0.70710678118654752F;
inline constexpr float reciprocal_sqrt_2pi = 0.39894228040143268F;
// gelu's approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
inline constexpr float tanh_slope = 0.79788456080286536F;
inline constexpr float tanh_cubic = 0.044715F;

// Each function and its derivative; the derivative takes what gradient_reads_output says: y or x.
// A comparison keeps NaN, which a maximum would not.
TRAINER_SIMD_INLINE float relu(float x) { return x < 0 ? 0 : x; }
TRAINER_SIMD_INLINE float relu_slope(float y) { return y > 0 ? 1.0F : 0.0F; }
TRAINER_SIMD_INLINE float gelu(float x) { return 0.5F * x * (1.0F + vector_erf(x * sqrt_half)); }
TRAINER_SIMD_INLINE float gelu_slope(float x) {
  return 0.5F * (1.0F + vector_erf(x * sqrt_half)) + x * reciprocal_sqrt_2pi * vector_exp(-0.5F * x * x);
}
TRAINER_SIMD_INLINE float gelu_tanh_value(float x) {
  return 0.5F * x * (1.0F + vector_tanh(tanh_slope * (x + tanh_cubic * x * x * x)));
}
TRAINER_SIMD_INLINE float gelu_tanh_slope(float x) {
  const float t = vector_tanh(tanh_slope * (x + tanh_cubic * x * x * x));
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * tanh_slope * (1.0F + 3.0F * tanh_cubic * x * x);
}
TRAINER_SIMD_INLINE float silu(float x) { return x * vector_sigmoid(x); }
TRAINER_SIMD_INLINE float silu_slope(float x) {
  const float s = vector_sigmoid(x);
  return s * (1.0F + x * (1.0F - s));
}
TRAINER_SIMD_INLINE float tanh_slope_of(float y) { return 1.0F - y * y; }
TRAINER_SIMD_INLINE float sigmoid_slope_of(float y) { return y * (1.0F - y); }
TRAINER_SIMD_INLINE float leaky_relu(float x, float slope) { return x > 0 ? x : slope * x; }
TRAINER_SIMD_INLINE float leaky_relu_slope(float y_or_x, float slope) { return y_or_x > 0 ? 1.0F : slope; }
TRAINER_SIMD_INLINE float relu6(float x) {
  const float above = x < 0 ? 0 : x;
  return above > 6 ? 6 : above;
}
TRAINER_SIMD_INLINE float relu6_slope(float y) { return y > 0 && y < 6 ? 1.0F : 0.0F; }
TRAINER_SIMD_INLINE float hardsigmoid(float x) { return relu6(x + 3.0F) * (1.0F / 6.0F); }
TRAINER_SIMD_INLINE float hardsigmoid_slope(float y) { return y > 0 && y < 1 ? 1.0F / 6.0F : 0.0F; }
TRAINER_SIMD_INLINE float hardswish(float x) { return x * hardsigmoid(x); }
TRAINER_SIMD_INLINE float hardswish_slope(float x) {
  const float between = x * (1.0F / 3.0F) + 0.5F;
  return x <= -3 ? 0.0F : x < 3 ? between : 1.0F;
}

}  // namespace trainer::activations
