#include <algorithm>

#include "engine/cpu/channel_place.h"
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

// A loop for each function, so that each is vectorised; dx may be dy, y may be x. `v` is the number that a function
// takes, and `parameter` leaky_relu's slope.
#define TRAINER_ACTIVATION_LOOPS(name, function, slope)                                                              \
  TRAINER_SIMD void name##_forward(const float* x, float* y, std::int64_t count, [[maybe_unused]] float parameter) { \
    _Pragma("omp simd") for (std::int64_t i = 0; i < count; ++i) {                                                   \
      const float v = x[i];                                                                                          \
      y[i] = function;                                                                                               \
    }                                                                                                                \
  }                                                                                                                  \
  TRAINER_SIMD void name##_backward(const float* dy, const float* read, float* dx, std::int64_t count,               \
                                    [[maybe_unused]] float parameter) {                                              \
    _Pragma("omp simd") for (std::int64_t i = 0; i < count; ++i) {                                                   \
      const float v = read[i];                                                                                       \
      dx[i] = dy[i] * (slope);                                                                                       \
    }                                                                                                                \
  }
TRAINER_ACTIVATION_LOOPS(relu, relu(v), relu_slope(v))
TRAINER_ACTIVATION_LOOPS(gelu, gelu(v), gelu_slope(v))
TRAINER_ACTIVATION_LOOPS(gelu_tanh, gelu_tanh_value(v), gelu_tanh_slope(v))
TRAINER_ACTIVATION_LOOPS(silu, silu(v), silu_slope(v))
TRAINER_ACTIVATION_LOOPS(tanh, vector_tanh(v), tanh_slope_of(v))
TRAINER_ACTIVATION_LOOPS(sigmoid, vector_sigmoid(v), sigmoid_slope_of(v))
TRAINER_ACTIVATION_LOOPS(leaky_relu, leaky_relu(v, parameter), leaky_relu_slope(v, parameter))
TRAINER_ACTIVATION_LOOPS(relu6, relu6(v), relu6_slope(v))
TRAINER_ACTIVATION_LOOPS(hardswish, hardswish(v), hardswish_slope(v))
TRAINER_ACTIVATION_LOOPS(hardsigmoid, hardsigmoid(v), hardsigmoid_slope(v))
#undef TRAINER_ACTIVATION_LOOPS

struct ActivationLoops {
  void (*forward)(const float* x, float* y, std::int64_t count, float parameter);
  void (*backward)(const float* dy, const float* read, float* dx, std::int64_t count, float parameter);
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
    case Activation::leaky_relu:
      return {leaky_relu_forward, leaky_relu_backward};
    case Activation::relu6:
      return {relu6_forward, relu6_backward};
    case Activation::hardswish:
      return {hardswish_forward, hardswish_backward};
    case Activation::hardsigmoid:
      return {hardsigmoid_forward, hardsigmoid_backward};
  }
  throw InternalError("internal error: an activation of no known function");
}

}  // namespace

void gelu_tanh(const float* x, float* y, std::int64_t count, int num_threads) {
  parallel_elements(num_threads, count, [=](std::int64_t begin, std::int64_t end) {
    gelu_tanh_forward(x + begin, y + begin, end - begin, 0);
  });
}

void gelu_tanh_backward_in_place(float* gradient, const float* x, std::int64_t count, int num_threads) {
  parallel_elements(num_threads, count, [=](std::int64_t begin, std::int64_t end) {
    gelu_tanh_backward(gradient + begin, x + begin, gradient + begin, end - begin, 0);
  });
}

namespace {

/// Row by row, as its rows do not lie one behind the other.
std::unique_ptr<CpuKernel> make_placed_activation_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<ActivationAttributes>(op);
  return make_kernel([function = loops_of(attributes).forward, parameter = static_cast<float>(attributes.slope),
                      type = op.inputs[0].dtype, place = ChannelPlace(op),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    place.copy_others(addresses, threads);
    const RowParts blocks = row_parts(place.rows, std::max<std::int64_t>(1, 8192 / place.channels), place.rows);
    parallel_tasks(place.rows * place.channels <= serial_elements ? 1 : threads, blocks.num_parts,
                   [&](std::int64_t block) {
                     for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i)
                       for_elements<1>(type, 1, place.channels,
                                       {input<std::byte>(addresses, 0) + i * place.channels * place.element_bytes},
                                       place.row(addresses.outputs[0], i),
                                       [&](const auto& x, float* y, std::int64_t, std::int64_t num_elements) {
                                         function(x[0], y, num_elements, parameter);
                                       });
                   });
  });
}

std::unique_ptr<CpuKernel> make_activation_kernel(const Op& op, CpuContext& context) {
  if (op.placed_at >= 0) return make_placed_activation_kernel(op, context);
  const auto& attributes = attributes_of<ActivationAttributes>(op);
  return make_kernel([function = loops_of(attributes).forward, parameter = static_cast<float>(attributes.slope),
                      type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    for_elements<1>(type, threads, count, {addresses.inputs[0]}, addresses.outputs[0],
                    [&](const auto& x, float* y, std::int64_t, std::int64_t num_elements) {
                      function(x[0], y, num_elements, parameter);
                    });
  });
}

std::unique_ptr<CpuKernel> make_activation_backward_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<ActivationAttributes>(op);
  return make_kernel([slope = loops_of(attributes).backward, parameter = static_cast<float>(attributes.slope),
                      type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    for_elements<2>(type, threads, count, {addresses.inputs[0], addresses.inputs[1]}, addresses.outputs[0],
                    [&](const auto& x, float* dx, std::int64_t, std::int64_t num_elements) {
                      slope(x[0], x[1], dx, num_elements, parameter);
                    });
  });
}

}  // namespace

const CpuOp activation_on_cpu = {make_activation_kernel, takes_16_bit};
const CpuOp activation_backward_on_cpu = {make_activation_backward_kernel, takes_16_bit};

}  // namespace trainer
