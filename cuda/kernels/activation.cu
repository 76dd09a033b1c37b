#include "cuda/kernels/activation.h"

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {
namespace {

constexpr float sqrt_half = 0.70710678118654752f;
constexpr float reciprocal_sqrt_2pi = 0.39894228040143268f;
// gelu's approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
constexpr float tanh_slope = 0.79788456080286536f;
constexpr float tanh_cubic = 0.044715f;

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

template <typename Function>
struct Backward {
  __device__ float operator()(float dy, float y_or_x) const { return dy * Function::slope(y_or_x); }
};

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
  }
  throw InternalError("internal error: an activation of no known function");
}

}  // namespace

void activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y, std::int64_t count,
                        Stream stream) {
  with_element_type(type, [&](auto element) {
    with_function(attributes, [&](auto function) {
      launch_elementwise<typename decltype(element)::type>(function, count, stream, y, x);
    });
  });
}

void activation_backward(DType type, const ActivationAttributes& attributes, const void* dy, const void* y_or_x,
                         void* dx, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    with_function(attributes, [&](auto function) {
      launch_elementwise<typename decltype(element)::type>(Backward<decltype(function)>{}, count, stream, dx, dy,
                                                           y_or_x);
    });
  });
}

}  // namespace trainer::cuda
