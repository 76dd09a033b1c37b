#pragma once
// Reductions over the threads of a warp or a block, in a fixed order; every thread gets the result. A maximum of
// numbers among which is a NaN is NaN. The block's threads are along x, all `threads` of them call, and `threads` is a
// multiple of warp_size; a block's reduction is also a barrier.

#include "cuda/launch/launch.h"

namespace trainer::cuda {

template <typename T>
__device__ __forceinline__ T larger_or_nan(T a, T b) {
  return a > b || a != a ? a : b;
}

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int mask = warp_size / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

template <typename T>
__device__ __forceinline__ T warp_max(T value) {
  for (int mask = warp_size / 2; mask > 0; mask /= 2) value = larger_or_nan(value, shuffle_xor(value, mask));
  return value;
}

template <int threads, typename T>
__device__ __forceinline__ T block_sum(T value) {
  static_assert(threads % warp_size == 0);
  value = warp_sum(value);
  if constexpr (threads > warp_size) {
    TRAINER_SHARED(T, of_warp, threads / warp_size);
    if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < threads / warp_size; ++warp) value += of_warp[warp];
    __syncthreads();  // the next call writes of_warp
  }
  return value;
}

template <int threads, typename T>
__device__ __forceinline__ T block_max(T value) {
  static_assert(threads % warp_size == 0);
  value = warp_max(value);
  if constexpr (threads > warp_size) {
    TRAINER_SHARED(T, of_warp, threads / warp_size);
    if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < threads / warp_size; ++warp) value = larger_or_nan(value, of_warp[warp]);
    __syncthreads();
  }
  return value;
}

}  // namespace trainer::cuda
