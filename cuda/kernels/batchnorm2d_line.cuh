#pragma once

#include "cuda/kernels/pack.h"

namespace trainer::cuda {

/// Note [Normalised again]
/// The backward pass decides by y whether a gradient passes ReLU, and checkpointing makes y anew. Both compute it from
/// x instead of reading it, and must come to the bits that the forward pass came to. So all three take the statistics
/// as the f32 numbers that are kept, and the fused multiply-add is written out: a compiler may contract an expression
/// in one kernel and not in another. What is added to it before ReLU is added to its f32 number.

/// y = (x − mean) · slope + bias for n channels.
template <int n>
struct Normalization {
  Pack<float, n> mean, slope, bias;

  __device__ __forceinline__ float operator()(float x, int i) const {
    return fmaf(x - mean.values[i], slope.values[i], bias.values[i]);
  }
};

/// slope = rstd · weight; a null weight is 1, a null bias 0.
template <int n>
__device__ __forceinline__ Normalization<n> normalization_of(const float* mean, const float* rstd, const float* weight,
                                                             const float* bias, std::int64_t channel) {
  Normalization<n> result{.mean = load_floats<n>(mean + channel),
                          .slope = load_floats<n>(rstd + channel),
                          .bias = load_floats_or<n>(bias, channel, 0.0f)};
  const Pack<float, n> weights = load_floats_or<n>(weight, channel, 1.0f);
  for (int i = 0; i < n; ++i) result.slope.values[i] *= weights.values[i];
  return result;
}

}  // namespace trainer::cuda
