#include "cuda/kernels/part_statistics.h"

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {

namespace {

constexpr int statistics_threads = 2 * warp_size;  // one for each number

static_assert(most_loss_terms * num_loss_statistics <= statistics_threads);

__global__ void __launch_bounds__(statistics_threads)
    keep_part_statistics_kernel(double* statistics, double* kept, int num_numbers) {
  wait_for_earlier_kernels();
  const int i = static_cast<int>(threadIdx.x);
  if (i >= num_numbers) return;
  kept[i] += statistics[i];
  statistics[i] = 0;
}

__global__ void __launch_bounds__(statistics_threads)
    sum_part_statistics_kernel(double* statistics, double* kept, int num_numbers, int num_parts) {
  wait_for_earlier_kernels();
  const int i = static_cast<int>(threadIdx.x);
  if (i >= num_numbers) return;
  for (int apart = 1; apart < num_parts; apart *= 2)
    for (int part = 0; part < num_parts; part += 2 * apart)
      kept[part * num_numbers + i] += kept[(part + apart) * num_numbers + i];
  statistics[i] = kept[i];
  for (int part = 0; part < num_parts; ++part) kept[part * num_numbers + i] = 0;
}

}  // namespace

void keep_part_statistics(double* statistics, double* kept, int num_terms, int part, Stream stream) {
  const int num_numbers = num_terms * num_loss_statistics;
  launch(keep_part_statistics_kernel, {1}, {statistics_threads}, stream, statistics, kept + part * num_numbers,
         num_numbers);
}

void sum_part_statistics(double* statistics, double* kept, int num_terms, int num_parts, Stream stream) {
  launch(sum_part_statistics_kernel, {1}, {statistics_threads}, stream, statistics, kept,
         num_terms * num_loss_statistics, num_parts);
}

}  // namespace trainer::cuda
