#pragma once
// Two sums over the rows for each channel: of a thread, of a block of ChannelTiles, of all parts. Every step has a
// fixed order.

#include "cuda/kernels/channel_tiles.h"

namespace trainer::cuda {

template <int n>
struct ColumnSums {
  float first[n], second[n];
};

/// Adds up what the block's threads of one lane hold; the threads with threadIdx.y = 0 get the result.
template <int n>
__device__ __forceinline__ void add_over_rows(ColumnSums<n>& sums) {
  TRAINER_SHARED(ColumnSums<n>, upper, tile_threads / 2);
  for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
    if (threadIdx.y >= rows && threadIdx.y < 2 * rows) {
      upper[(threadIdx.y - rows) * blockDim.x + threadIdx.x] = sums;
    }
    __syncthreads();
    if (threadIdx.y < rows) {
      const ColumnSums<n>& other = upper[threadIdx.y * blockDim.x + threadIdx.x];
      for (int i = 0; i < n; ++i) {
        sums.first[i] += other.first[i];
        sums.second[i] += other.second[i];
      }
    }
    __syncthreads();
  }
}

/// One part's sums of one channel.
using SumPair = Pack<float, 2>;

/// Those of n channels, whose pairs begin at `pairs`, aligned to all of them.
template <int n>
__device__ __forceinline__ void store_pairs(SumPair* pairs, const float (&first)[n], const float (&second)[n]) {
  Pack<float, 2 * n> values;
  for (int i = 0; i < n; ++i) {
    values.values[2 * i] = first[i];
    values.values[2 * i + 1] = second[i];
  }
  store_pack(reinterpret_cast<float*>(pairs), values);
}

// A launch over the channels that combines what parts hold: threads along x have a channel each, those along y every
// 32nd part.
inline constexpr int combined_channels = 8, combining_threads = 32;

inline Dim3 combining_grid(std::int64_t channels) { return grid_of(num_blocks(channels, combined_channels)); }
inline Dim3 combining_block() { return {combined_channels, combining_threads}; }

struct DoubleSums {
  double first, second;
};

/// Adds up what the block's threads along y hold; those with threadIdx.y = 0 get the result.
__device__ __forceinline__ void combine_over_parts(DoubleSums& sums) {
  TRAINER_SHARED(DoubleSums, upper, combined_channels * combining_threads / 2);
  for (unsigned count = combining_threads / 2; count > 0; count /= 2) {
    if (threadIdx.y >= count && threadIdx.y < 2 * count) {
      upper[(threadIdx.y - count) * combined_channels + threadIdx.x] = sums;
    }
    __syncthreads();
    if (threadIdx.y < count) {
      sums.first += upper[threadIdx.y * combined_channels + threadIdx.x].first;
      sums.second += upper[threadIdx.y * combined_channels + threadIdx.x].second;
    }
    __syncthreads();
  }
}

/// The sums over all parts of `pairs` (num_parts, channels), for threads with threadIdx.y = 0.
__device__ __forceinline__ DoubleSums sum_of_parts(const SumPair* pairs, std::int64_t num_parts, std::int64_t channel,
                                                   std::int64_t channels) {
  DoubleSums sums{0, 0};
  if (channel < channels) {
    for (std::int64_t part = threadIdx.y; part < num_parts; part += combining_threads) {
      const SumPair pair = pairs[part * channels + channel];
      sums.first += static_cast<double>(pair.values[0]);
      sums.second += static_cast<double>(pair.values[1]);
    }
  }
  combine_over_parts(sums);
  return sums;
}

}  // namespace trainer::cuda
