#pragma once

#include "cuda/kernels/loss_parts.h"
#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {

/// Where a launch puts what its blocks found: into a part each, or, where there is one block, into the statistics.
struct LossSink {
  LossPart* parts;
  double* statistics;
};

/// Adds up what all threads of the block hold. Every thread of the block calls it.
template <int threads>
__device__ __forceinline__ void put_loss_part(const LossSink& sink, const LossPart& of_thread) {
  for (int i = 0; i < num_loss_statistics; ++i) {
    const double sum = block_sum<threads>(of_thread.statistics[i]);
    if (threadIdx.x > 0) continue;
    if (gridDim.x == 1) {
      sink.statistics[i] += sum;
    } else {
      sink.parts[blockIdx.x].statistics[i] = sum;
    }
  }
}

/// Ends a loss: `num_parts` blocks have called put_loss_part.
inline void finish_loss(const LossSink& sink, std::int64_t num_parts, Stream stream) {
  if (num_parts > 1) add_loss_parts(sink.parts, num_parts, sink.statistics, stream);
}

}  // namespace trainer::cuda
