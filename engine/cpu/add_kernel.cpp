#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void add_loop(const float* a, const float* b, float* y, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
}

TRAINER_SIMD void add_relu_loop(const float* a, const float* b, float* y, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float sum = a[i] + b[i];
    y[i] = sum < 0 ? 0 : sum;
  }
}

std::unique_ptr<CpuKernel> make_add_kernel(const Op& op, CpuContext& context) {
  return make_kernel([sum = attributes_of<AddAttributes>(op).relu ? add_relu_loop : add_loop, type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    for_elements<2>(
        type, threads, count, {addresses.inputs[0], addresses.inputs[1]}, addresses.outputs[0],
        [&](const auto& x, float* y, std::int64_t, std::int64_t num_elements) { sum(x[0], x[1], y, 0, num_elements); });
  });
}

}  // namespace

const CpuOp add_on_cpu = {make_add_kernel, takes_16_bit};

}  // namespace trainer
