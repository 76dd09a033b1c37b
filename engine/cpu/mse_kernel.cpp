#include "engine/cpu/numeric_loss.h"
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
  const float slope = 2 * scale;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) gradients[i] = slope * (prediction[i] - targets[i]);
}

void summarize_mse(const float* prediction, const float* targets, LossPart& part, std::int64_t begin,
                   std::int64_t end) {
  part.statistics[loss_sum] = sum_squares(prediction, targets, begin, end);
  part.statistics[loss_weight] = static_cast<double>(end - begin);
}

std::unique_ptr<CpuKernel> make_mse_kernel(const Op& op, CpuContext& context) {
  return make_numeric_loss_kernel(op, context, summarize_mse);
}

std::unique_ptr<CpuKernel> make_mse_backward_kernel(const Op& op, CpuContext& context) {
  return make_numeric_loss_backward_kernel(op, context, mse_gradients);
}

}  // namespace

const CpuOp mse_on_cpu = {make_mse_kernel, cut_nowhere, loss_workspace_bytes};
const CpuOp mse_backward_on_cpu = {make_mse_backward_kernel, cut_nowhere};

}  // namespace trainer
