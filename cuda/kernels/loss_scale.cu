#include "cuda/kernels/loss_scale.h"

#include <limits>

#include "cuda/kernels/elementwise.cuh"
#include "engine/ops/gradient_factor.h"
#include "engine/ops/loss_statistics.h"

namespace trainer::cuda {

namespace {

struct TimesScale {
  const double* state;
  __device__ float operator()(float x) const { return x * static_cast<float>(state[loss_scale_factor]); }
};

__global__ void __launch_bounds__(1) update_loss_scale_kernel(const double* statistics, const float* factor,
                                                              LossScaleAttributes attributes, double* state) {
  wait_for_earlier_kernels();
  const bool is_finite = fabs(statistics[loss_sum]) <= std::numeric_limits<double>::max();
  if (!is_finite || factor[gradients_finite] == 0) {
    state[loss_scale_factor] = static_cast<double>(static_cast<float>(state[loss_scale_factor] * attributes.backoff));
    state[loss_scale_tracker] = 0;
    state[loss_scale_skipped] += 1;
    return;
  }
  state[loss_scale_tracker] += 1;
  if (state[loss_scale_tracker] < static_cast<double>(attributes.interval)) return;
  const auto grown = static_cast<float>(state[loss_scale_factor] * attributes.growth);
  if (grown <= std::numeric_limits<float>::max()) state[loss_scale_factor] = static_cast<double>(grown);
  state[loss_scale_tracker] = 0;
}

}  // namespace

void scale_gradient(const float* x, const double* state, float* y, std::int64_t count, Stream stream) {
  launch_elementwise<float>(TimesScale{state}, count, stream, y, x);
}

void update_loss_scale(const double* statistics, const float* factor, const LossScaleAttributes& attributes,
                       double* state, Stream stream) {
  launch(update_loss_scale_kernel, {1}, {1}, stream, statistics, factor, attributes, state);
}

}  // namespace trainer::cuda
