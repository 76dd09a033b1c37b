#include <cmath>

#include "engine/cpu/numeric_loss.h"
#include "engine/cpu/vector_math.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// max(x, 0) − x·t + log(1 + e^−|x|), which overflows nowhere.
double loss_of(double logit, double target) {
  return (logit < 0 ? 0 : logit) - logit * target + std::log1p(std::exp(-std::fabs(logit)));
}

TRAINER_SIMD void bce_gradients(const float* logits, const float* targets, float* gradients, float scale,
                                std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) gradients[i] = scale * (vector_sigmoid(logits[i]) - targets[i]);
}

void summarize_bce(const float* logits, const float* targets, LossPart& part, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const bool right = targets[i] > 0.5F ? logits[i] > 0 : logits[i] <= 0;
    part.statistics[loss_sum] += loss_of(static_cast<double>(logits[i]), static_cast<double>(targets[i]));
    part.statistics[num_correct] += right ? 1 : 0;
  }
  part.statistics[loss_weight] = static_cast<double>(end - begin);
  part.statistics[num_counted] = static_cast<double>(end - begin);
}

std::unique_ptr<CpuKernel> make_bce_with_logits_kernel(const Op& op, CpuContext& context) {
  return make_numeric_loss_kernel(op, context, summarize_bce);
}

std::unique_ptr<CpuKernel> make_bce_with_logits_backward_kernel(const Op& op, CpuContext& context) {
  return make_numeric_loss_backward_kernel(op, context, bce_gradients);
}

}  // namespace

const CpuOp bce_with_logits_on_cpu = {make_bce_with_logits_kernel, cut_nowhere, loss_workspace_bytes};
const CpuOp bce_with_logits_backward_on_cpu = {make_bce_with_logits_backward_kernel, cut_nowhere};

}  // namespace trainer
