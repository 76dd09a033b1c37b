#include "cuda/kernels/loss_parts.h"

#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {

namespace {

constexpr int adding_threads = 256;

__global__ void __launch_bounds__(adding_threads)
    add_loss_parts_kernel(const LossPart* __restrict__ parts, std::int64_t num_parts, double* statistics) {
  LossPart sum{};
  for (std::int64_t part = threadIdx.x; part < num_parts; part += adding_threads) {
    for (int i = 0; i < num_loss_statistics; ++i) sum.statistics[i] += parts[part].statistics[i];
  }
  for (int i = 0; i < num_loss_statistics; ++i) {
    const double total = block_sum<adding_threads>(sum.statistics[i]);
    if (threadIdx.x == 0) statistics[i] += total;
  }
}

}  // namespace

void add_loss_parts(const LossPart* parts, std::int64_t num_parts, double* statistics, Stream stream) {
  launch(add_loss_parts_kernel, {1}, {adding_threads}, stream, parts, num_parts, statistics);
}

}  // namespace trainer::cuda
