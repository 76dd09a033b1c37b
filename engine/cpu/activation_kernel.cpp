#include <algorithm>

#include "engine/cpu/activation_functions.h"
#include "engine/cpu/channel_place.h"
#include "engine/cpu/element_loop.h"
#include "engine/cpu/gelu.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"

namespace trainer {

namespace {

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
TRAINER_ACTIVATION_LOOPS(relu, activations::relu(v), activations::relu_slope(v))
TRAINER_ACTIVATION_LOOPS(gelu, activations::gelu(v), activations::gelu_slope(v))
TRAINER_ACTIVATION_LOOPS(gelu_tanh, activations::gelu_tanh_value(v), activations::gelu_tanh_slope(v))
TRAINER_ACTIVATION_LOOPS(silu, activations::silu(v), activations::silu_slope(v))
TRAINER_ACTIVATION_LOOPS(tanh, vector_tanh(v), activations::tanh_slope_of(v))
TRAINER_ACTIVATION_LOOPS(sigmoid, vector_sigmoid(v), activations::sigmoid_slope_of(v))
TRAINER_ACTIVATION_LOOPS(leaky_relu, activations::leaky_relu(v, parameter), activations::leaky_relu_slope(v, parameter))
TRAINER_ACTIVATION_LOOPS(relu6, activations::relu6(v), activations::relu6_slope(v))
TRAINER_ACTIVATION_LOOPS(hardswish, activations::hardswish(v), activations::hardswish_slope(v))
TRAINER_ACTIVATION_LOOPS(hardsigmoid, activations::hardsigmoid(v), activations::hardsigmoid_slope(v))
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
