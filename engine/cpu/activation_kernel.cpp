#include "engine/cpu/element_loop.h"
#include "engine/cpu/gelu.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/vector_math.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr float sqrt_half = 0.70710678118654752F;
constexpr float reciprocal_sqrt_2pi = 0.39894228040143268F;
// gelu's approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
constexpr float tanh_slope = 0.79788456080286536F;
constexpr float tanh_cubic = 0.044715F;

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

// A loop for each function, so that each is vectorised; dx may be dy, y may be x.
#define TRAINER_ACTIVATION_LOOPS(name, function, slope)                                                \
  TRAINER_SIMD void name##_forward(const float* x, float* y, std::int64_t begin, std::int64_t end) {   \
    _Pragma("omp simd") for (std::int64_t i = begin; i < end; ++i) y[i] = function(x[i]);              \
  }                                                                                                    \
  TRAINER_SIMD void name##_backward(const float* dy, const float* read, float* dx, std::int64_t begin, \
                                    std::int64_t end) {                                                \
    _Pragma("omp simd") for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * slope(read[i]);     \
  }
TRAINER_ACTIVATION_LOOPS(relu, relu, relu_slope)
TRAINER_ACTIVATION_LOOPS(gelu, gelu, gelu_slope)
TRAINER_ACTIVATION_LOOPS(gelu_tanh, gelu_tanh_value, gelu_tanh_slope)
TRAINER_ACTIVATION_LOOPS(silu, silu, silu_slope)
TRAINER_ACTIVATION_LOOPS(tanh, vector_tanh, tanh_slope_of)
TRAINER_ACTIVATION_LOOPS(sigmoid, vector_sigmoid, sigmoid_slope_of)
#undef TRAINER_ACTIVATION_LOOPS

struct ActivationLoops {
  void (*forward)(const float*, float*, std::int64_t, std::int64_t);
  void (*backward)(const float*, const float*, float*, std::int64_t, std::int64_t);
};

ActivationLoops loops_of(const ActivationAttributes& attributes) {
  switch (attributes.function) {
    case Activation::relu:
      return {relu_forward, relu_backward};
    case Activation::gelu:
      if (attributes.approximate == GeluApproximation::tanh) return {gelu_tanh_forward, gelu_tanh_backward};
      return {gelu_forward, gelu_backward};
    case Activation::silu:
      return {silu_forward, silu_backward};
    case Activation::tanh:
      return {tanh_forward, tanh_backward};
    case Activation::sigmoid:
      return {sigmoid_forward, sigmoid_backward};
  }
  throw InternalError("internal error: an activation of no known function");
}

}  // namespace

void gelu_tanh(const float* x, float* y, std::int64_t count, int num_threads) {
  parallel_elements(num_threads, count,
                    [=](std::int64_t begin, std::int64_t end) { gelu_tanh_forward(x, y, begin, end); });
}

void gelu_tanh_backward_in_place(float* gradient, const float* x, std::int64_t count, int num_threads) {
  parallel_elements(num_threads, count, [=](std::int64_t begin, std::int64_t end) {
    gelu_tanh_backward(gradient, x, gradient, begin, end);
  });
}

namespace {

std::unique_ptr<CpuKernel> make_activation_kernel(const Op& op, CpuContext& context) {
  return make_kernel([function = loops_of(attributes_of<ActivationAttributes>(op)).forward, type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    for_elements<1>(
        type, threads, count, {addresses.inputs[0]}, addresses.outputs[0],
        [&](const auto& x, float* y, std::int64_t, std::int64_t num_elements) { function(x[0], y, 0, num_elements); });
  });
}

std::unique_ptr<CpuKernel> make_activation_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([slope = loops_of(attributes_of<ActivationAttributes>(op)).backward, type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    for_elements<2>(type, threads, count, {addresses.inputs[0], addresses.inputs[1]}, addresses.outputs[0],
                    [&](const auto& x, float* dx, std::int64_t, std::int64_t num_elements) {
                      slope(x[0], x[1], dx, 0, num_elements);
                    });
  });
}

}  // namespace

const CpuOp activation_on_cpu = {make_activation_kernel, takes_16_bit};
const CpuOp activation_backward_on_cpu = {make_activation_backward_kernel, takes_16_bit};

}  // namespace trainer
