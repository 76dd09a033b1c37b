#include "cuda/kernels/loss_parts.h"

#include <limits>

#include "cuda/kernels/loss_parts.cuh"
#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {

namespace {

constexpr int adding_threads = 256;

__global__ void __launch_bounds__(adding_threads)
    add_loss_parts_kernel(const LossPart* __restrict__ parts, std::int64_t num_parts, double* statistics, int term) {
  wait_for_earlier_kernels();
  LossPart sum{};
  for (std::int64_t part = threadIdx.x; part < num_parts; part += adding_threads) {
    for (int i = 0; i < num_loss_statistics; ++i) sum.statistics[i] += parts[part].statistics[i];
  }
  for (int i = 0; i < num_loss_statistics; ++i) {
    const double total = block_sum<adding_threads>(sum.statistics[i]);
    if (threadIdx.x == 0) add_statistic(statistics, term, i, total);
  }
}

constexpr int starting_threads = 2 * warp_size;
static_assert(most_loss_terms * num_loss_statistics <= starting_threads);

__global__ void __launch_bounds__(starting_threads)
    start_loss_statistics_kernel(double* statistics, int num_numbers, bool keeps_non_finite) {
  wait_for_earlier_kernels();
  const int i = static_cast<int>(threadIdx.x);
  const bool has_lost_weights = statistics[num_counted] != statistics[num_counted];
  __syncthreads();
  if (i >= num_numbers) return;
  if (has_lost_weights && (i == loss_sum || i == num_counted)) {
    statistics[i] = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  // What is not finite is not equal to itself less itself.
  if (!keeps_non_finite || i != loss_sum || statistics[i] - statistics[i] == 0) statistics[i] = 0;
}

}  // namespace

void start_loss_statistics(double* statistics, int num_terms, bool keeps_non_finite, Stream stream) {
  launch(start_loss_statistics_kernel, {1}, {starting_threads}, stream, statistics, num_terms * num_loss_statistics,
         keeps_non_finite);
}

void add_loss_parts(const LossPart* parts, std::int64_t num_parts, double* statistics, int term, Stream stream) {
  launch(add_loss_parts_kernel, {1}, {adding_threads}, stream, parts, num_parts, statistics, term);
}

}  // namespace trainer::cuda
