#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/simd.h"

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

}  // namespace

std::unique_ptr<CpuKernel> make_add_kernel(const Op& op, CpuContext& context) {
  return make_kernel([loop = attributes_of<AddAttributes>(op).relu ? add_relu_loop : add_loop,
                      count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const float* const a = input(addresses, 0);
    const float* const b = input(addresses, 1);
    float* const y = output(addresses, 0);
    parallel_elements(threads, count, [&](std::int64_t begin, std::int64_t end) { loop(a, b, y, begin, end); });
  });
}

}  // namespace trainer
