#pragma once
// What an update does to one element, for all kernels that update.

#include <limits>

#include "cuda/kernels/optimizer_update.h"
#include "cuda/launch/launch.h"

namespace trainer::cuda {

/// Whether the update changes nothing.
__device__ __forceinline__ bool is_refused(const UpdateOperands& operands) {
  if (operands.loss_scale != nullptr && operands.factor[gradients_finite] == 0) return true;
  return !(fabs(operands.statistics[loss_sum]) <= std::numeric_limits<double>::max());
}

/// Adds up whether a weight that the calling thread made is not finite; one comparison each.
class LostWeights {
 public:
  __device__ __forceinline__ void look_at(float weight) {
    found_ = found_ || !(fabsf(weight) <= std::numeric_limits<float>::max());
  }
  /// Every thread that has one stores the same.
  __device__ __forceinline__ void tell(const UpdateOperands& operands) const {
    if (found_) operands.statistics[num_counted] = std::numeric_limits<double>::quiet_NaN();
  }

 private:
  bool found_ = false;
};

__device__ __forceinline__ float factor_of(const UpdateOperands& operands) {
  return operands.factor == nullptr ? 1.0f : operands.factor[gradient_multiplier];
}

/// The number of this update among those that were made since the state began.
__device__ __forceinline__ double made_updates(const UpdateOperands& operands, const UpdatePace& pace) {
  const auto update = static_cast<double>(operands.scalars->update - pace.updates_before);
  return operands.loss_scale == nullptr ? update : update - operands.loss_scale[loss_scale_skipped];
}

struct SgdScalars {
  float factor, weight_decay, momentum, step;
  bool nesterov, starts_momentum;
};

/// Every thread of the block calls it.
__device__ __forceinline__ SgdScalars scalars_of(const UpdateOperands& operands, const SgdRule& rule) {
  return {factor_of(operands),
          static_cast<float>(rule.weight_decay),
          static_cast<float>(rule.pace.cycles_momentum ? operands.scalars->momentum : rule.momentum),
          static_cast<float>(operands.scalars->learning_rate * rule.pace.rate_factor),
          rule.nesterov,
          made_updates(operands, rule.pace) <= 1};
}

__device__ __forceinline__ void update_element(const SgdScalars& s, float& weight, float gradient) {
  weight -= s.step * (gradient * s.factor + s.weight_decay * weight);
}

__device__ __forceinline__ void update_element(const SgdScalars& s, float& weight, float gradient, float& momentum) {
  const float decayed = gradient * s.factor + s.weight_decay * weight;
  // Whatever the momentum held before the first update, NaN too, is not read.
  const float velocity = s.starts_momentum ? decayed : s.momentum * momentum + decayed;
  momentum = velocity;
  weight -= s.step * (s.nesterov ? decayed + s.momentum * velocity : velocity);
}

struct AdamScalars {
  float factor, weight_decay, shrink, beta2;
  float one_minus_beta1, one_minus_beta2;
  float bias_correction2_root, eps, step;
};

/// torch.optim computes in f32 with scalars in f64 that are rounded when they meet a tensor; so does this. Every thread
/// of the block calls it.
__device__ __forceinline__ AdamScalars scalars_of(const UpdateOperands& operands, const AdamRule& rule) {
  // Powers in f64 take long: two threads compute one each.
  TRAINER_SHARED(double, powers, 2);
  const double beta1 = rule.pace.cycles_momentum ? operands.scalars->momentum : rule.beta1;
  if (threadIdx.x < 2)
    powers[threadIdx.x] = pow(threadIdx.x == 0 ? beta1 : rule.beta2, made_updates(operands, rule.pace));
  __syncthreads();
  TRAINER_SHARED(AdamScalars, scalars, 1);
  if (threadIdx.x == 0) {
    const double learning_rate = operands.scalars->learning_rate * rule.pace.rate_factor;
    scalars[0] = {factor_of(operands),
                  rule.decoupled ? 0.0f : static_cast<float>(rule.weight_decay),
                  rule.decoupled ? static_cast<float>(1 - learning_rate * rule.weight_decay) : 1.0f,
                  static_cast<float>(rule.beta2),
                  static_cast<float>(1 - beta1),
                  static_cast<float>(1 - rule.beta2),
                  static_cast<float>(sqrt(1 - powers[1])),
                  static_cast<float>(rule.eps),
                  static_cast<float>(learning_rate / (1 - powers[0]))};
  }
  __syncthreads();
  return scalars[0];
}

__device__ __forceinline__ void update_element(const AdamScalars& s, float& weight, float gradient, float& first_moment,
                                               float& second_moment) {
  const float decayed = weight * s.shrink;                             // AdamW; 1 for Adam
  const float value = gradient * s.factor + s.weight_decay * decayed;  // Adam; 0 for AdamW
  const float first = first_moment + (value - first_moment) * s.one_minus_beta1;
  const float second = second_moment * s.beta2 + s.one_minus_beta2 * value * value;
  first_moment = first;
  second_moment = second;
  const float denominator = sqrtf(second) / s.bias_correction2_root + s.eps;
  weight = decayed - s.step * (first / denominator);
}

}  // namespace trainer::cuda
