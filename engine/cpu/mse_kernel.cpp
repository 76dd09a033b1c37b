#include "engine/cpu/loss_parts.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD double sum_squares(const float* prediction, const float* targets, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) {
    const auto difference = static_cast<double>(prediction[i] - targets[i]);
    sum += difference * difference;
  }
  return sum;
}

TRAINER_SIMD void mse_gradients(const float* prediction, const float* targets, float* gradients, float scale,
                                std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) gradients[i] = scale * (prediction[i] - targets[i]);
}

std::unique_ptr<CpuKernel> make_mse_kernel(const Op& op, CpuContext& context) {
  return make_kernel(
      [parts = loss_parts(op), threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
        const float* const prediction = input(addresses, 0);
        const float* const targets = input(addresses, 1);
        sum_loss_parts(parts.rows <= serial_elements ? 1 : threads, parts, addresses.workspace,
                       modified_input<double>(addresses, 2), [&](LossPart& part, std::int64_t begin, std::int64_t end) {
                         part.statistics[loss_sum] = sum_squares(prediction, targets, begin, end);
                         part.statistics[loss_weight] = static_cast<double>(end - begin);
                       });
      });
}

std::unique_ptr<CpuKernel> make_mse_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([count = op.inputs[0].num_elements(), threads = context.num_threads](
                         const OperandAddresses& addresses, const StepScalars& scalars) {
    const float* const prediction = input(addresses, 0);
    const float* const targets = input(addresses, 1);
    float* const gradients = output(addresses, 0);
    const float scale = 2 * scalars.gradient_scale;
    parallel_elements(threads, count, [&](std::int64_t begin, std::int64_t end) {
      mse_gradients(prediction, targets, gradients, scale, begin, end);
    });
  });
}

}  // namespace

const CpuOp mse_on_cpu = {make_mse_kernel, cut_nowhere, loss_workspace_bytes};
const CpuOp mse_backward_on_cpu = {make_mse_backward_kernel, cut_nowhere};

}  // namespace trainer
