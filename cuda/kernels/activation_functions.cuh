#pragma once
// Each activation and its slope, for the kernels that take one as a parameter.

#include <cmath>

#include "cuda/launch/launch.h"
#include "engine/errors.h"
#include "engine/ops/activation.h"

namespace trainer::cuda {

inline constexpr float sqrt_half = 0.70710678118654752f;
inline constexpr float reciprocal_sqrt_2pi = 0.39894228040143268f;
// gelu's approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
inline constexpr float tanh_slope = 0.79788456080286536f;
inline constexpr float tanh_cubic = 0.044715f;

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

// Each function of x, and its slope from y or x.
struct Relu {
  // A comparison keeps NaN, which a maximum would not.
  __device__ float operator()(float x) const { return x < 0 ? 0.0f : x; }
  __device__ static float slope(float y) { return y > 0 ? 1.0f : 0.0f; }
};
struct Gelu {
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * sqrt_half)); }
  __device__ static float slope(float x) {
    return 0.5f * (1.0f + erff(x * sqrt_half)) + x * reciprocal_sqrt_2pi * expf(-0.5f * x * x);
  }
};
struct GeluTanh {
  __device__ static float tanh_part(float x) { return tanhf(tanh_slope * (x + tanh_cubic * x * x * x)); }
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + tanh_part(x)); }
  __device__ static float slope(float x) {
    const float t = tanh_part(x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * tanh_slope * (1.0f + 3.0f * tanh_cubic * x * x);
  }
};
struct Silu {
  __device__ float operator()(float x) const { return x * sigmoid_of(x); }
  __device__ static float slope(float x) {
    const float s = sigmoid_of(x);
    return s * (1.0f + x * (1.0f - s));
  }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
  __device__ static float slope(float y) { return 1.0f - y * y; }
};
struct Sigmoid {
  __device__ float operator()(float x) const { return sigmoid_of(x); }
  __device__ static float slope(float y) { return y * (1.0f - y); }
};
struct LeakyRelu {
  float below;
  __device__ float operator()(float x) const { return x > 0 ? x : below * x; }
  __device__ float slope(float y_or_x) const { return y_or_x > 0 ? 1.0f : below; }
};
struct Relu6 {
  __device__ float operator()(float x) const {
    const float above = x < 0 ? 0.0f : x;
    return above > 6 ? 6.0f : above;
  }
  __device__ static float slope(float y) { return y > 0 && y < 6 ? 1.0f : 0.0f; }
};
struct HardSigmoid {
  __device__ float operator()(float x) const { return Relu6{}(x + 3.0f) * (1.0f / 6.0f); }
  __device__ static float slope(float y) { return y > 0 && y < 1 ? 1.0f / 6.0f : 0.0f; }
};
struct HardSwish {
  __device__ float operator()(float x) const { return x * HardSigmoid{}(x); }
  __device__ static float slope(float x) {
    if (x <= -3) return 0.0f;
    return x < 3 ? x * (1.0f / 3.0f) + 0.5f : 1.0f;
  }
};

/// Calls use(the struct above).
template <typename Use>
void with_function(const ActivationAttributes& attributes, Use&& use) {
  switch (attributes.function) {
    case Activation::relu:
      return use(Relu{});
    case Activation::gelu:
      return attributes.approximate == GeluApproximation::tanh ? use(GeluTanh{}) : use(Gelu{});
    case Activation::silu:
      return use(Silu{});
    case Activation::tanh:
      return use(Tanh{});
    case Activation::sigmoid:
      return use(Sigmoid{});
    case Activation::leaky_relu:
      return use(LeakyRelu{static_cast<float>(attributes.slope)});
    case Activation::relu6:
      return use(Relu6{});
    case Activation::hardswish:
      return use(HardSwish{});
    case Activation::hardsigmoid:
      return use(HardSigmoid{});
  }
  throw InternalError("internal error: an activation of no known function");
}

}  // namespace trainer::cuda
