#include <cmath>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/gradient_factor.h"
#include "engine/ops/loss_statistics.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void scale_loop(const float* x, float* y, float scale, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] * scale;
}

std::unique_ptr<CpuKernel> make_scale_gradient_kernel(const Op& op, CpuContext& context) {
  return make_kernel([count = op.inputs[0].num_elements(), threads = context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    const auto scale = static_cast<float>(input<double>(addresses, 1)[loss_scale_factor]);
    parallel_elements(threads, count, [&](std::int64_t begin, std::int64_t end) {
      scale_loop(input(addresses, 0), output(addresses, 0), scale, begin, end);
    });
  });
}

std::unique_ptr<CpuKernel> make_update_loss_scale_kernel(const Op& op, CpuContext&) {
  return make_kernel(
      [a = attributes_of<LossScaleAttributes>(op)](const OperandAddresses& addresses, const StepScalars&) {
        auto* const state = modified_input<double>(addresses, 2);
        if (!std::isfinite(input<double>(addresses, 0)[loss_sum]) || input(addresses, 1)[gradients_finite] == 0) {
          state[loss_scale_factor] = static_cast<double>(static_cast<float>(state[loss_scale_factor] * a.backoff));
          state[loss_scale_tracker] = 0;
          state[loss_scale_skipped] += 1;
          return;
        }
        state[loss_scale_tracker] += 1;
        if (state[loss_scale_tracker] < static_cast<double>(a.interval)) return;
        const auto grown = static_cast<float>(state[loss_scale_factor] * a.growth);
        if (std::isfinite(grown)) state[loss_scale_factor] = static_cast<double>(grown);
        state[loss_scale_tracker] = 0;
      });
}

}  // namespace

const CpuOp scale_gradient_on_cpu = {make_scale_gradient_kernel, takes_16_bit};
const CpuOp update_loss_scale_on_cpu = {make_update_loss_scale_kernel, cut_nowhere};

}  // namespace trainer
