#pragma once

#include "cuda/kernels/loss_parts.h"
#include "cuda/kernels/reduce.cuh"
#include "engine/device/step_scalars.h"

namespace trainer::cuda {

/// Where a launch puts what its blocks found: into a part each, or, where there is one block, into the statistics.
struct LossSink {
  LossPart* parts;
  double* statistics;
  int term;  ///< of the loss, whose statistics are meant
};

/// Adds to one statistic of a term. A loss that is not finite shows in the first term's: Note [Lost weights] in
/// engine/ops/loss_statistics.h.
__device__ __forceinline__ void add_statistic(double* statistics, int term, int i, double value) {
  double& sum = statistics[term * num_loss_statistics + i];
  sum += value;
  if (i == loss_sum && term > 0) statistics[loss_sum] += 0 * sum;
}

/// StepScalars::gradient_scale_of.
__device__ __forceinline__ float gradient_scale_of(const StepScalars& scalars, int term) {
  return term == 0 ? scalars.gradient_scale : scalars.further_gradient_scales[term - 1];
}

/// Adds up what all threads of the block hold. Every thread of the block calls it.
template <int threads>
__device__ __forceinline__ void put_loss_part(const LossSink& sink, const LossPart& of_thread) {
  for (int i = 0; i < num_loss_statistics; ++i) {
    const double sum = block_sum<threads>(of_thread.statistics[i]);
    if (threadIdx.x > 0) continue;
    if (gridDim.x == 1) {
      add_statistic(sink.statistics, sink.term, i, sum);
    } else {
      sink.parts[blockIdx.x].statistics[i] = sum;
    }
  }
}

/// Ends a loss: `num_parts` blocks have called put_loss_part.
inline void finish_loss(const LossSink& sink, std::int64_t num_parts, Stream stream) {
  if (num_parts > 1) add_loss_parts(sink.parts, num_parts, sink.statistics, sink.term, stream);
}

}  // namespace trainer::cuda
