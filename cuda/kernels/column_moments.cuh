#pragma once
// Mean and squared deviations over the rows for each channel, without the cancellation of Σx² − (Σx)²/n: a few rows at
// a time, merged by the formula of Chan, Golub and LeVeque (1979). All of x − shift with shift = x's first row, so that
// the mean of numbers that lie close together far from 0 keeps its digits.

#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

/// Rows whose loads are on their way together.
inline constexpr int rows_at_once = 4;

template <int n>
struct Moments {
  float mean[n], squares[n];  ///< squares: Σ (value − mean)²
  std::int64_t count;
};

template <int n>
__device__ __forceinline__ void merge(Moments<n>& into, const Moments<n>& other) {
  if (other.count == 0) return;
  const std::int64_t count = into.count + other.count;
  const float share = static_cast<float>(other.count) / static_cast<float>(count);
  const float weight = share * static_cast<float>(into.count);
  for (int i = 0; i < n; ++i) {
    const float difference = other.mean[i] - into.mean[i];
    into.mean[i] += difference * share;
    into.squares[i] += other.squares[i] + difference * difference * weight;
  }
  into.count = count;
}

/// Of rows begin + threadIdx.y, then every blockDim.y-th, below end.
template <int n, typename T>
__device__ __forceinline__ Moments<n> moments_of_rows(const T* x, const TilePosition& position, std::int64_t channels,
                                                      std::int64_t begin, std::int64_t end) {
  Moments<n> total{};
  if (!position.active) return total;
  const Pack<float, n> shift = load_floats<n>(x + position.channel);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += rows_at_once * blockDim.y) {
    Pack<float, n> values[rows_at_once]{};
    Moments<n> few{};
    for (int u = 0; u < rows_at_once; ++u) {
      const std::int64_t at = row + u * blockDim.y;
      if (at < end) {
        values[u] = load_floats<n>(x + at * channels + position.channel);
        ++few.count;
      }
    }
    for (int u = 0; u < rows_at_once; ++u) {
      if (u >= few.count) continue;
      for (int i = 0; i < n; ++i) {
        values[u].values[i] -= shift.values[i];
        few.mean[i] += values[u].values[i];
      }
    }
    const float factor = 1.0f / static_cast<float>(few.count);
    for (int i = 0; i < n; ++i) few.mean[i] *= factor;
    for (int u = 0; u < rows_at_once; ++u) {
      if (u >= few.count) continue;
      for (int i = 0; i < n; ++i) {
        const float deviation = values[u].values[i] - few.mean[i];
        few.squares[i] += deviation * deviation;
      }
    }
    merge(total, few);
  }
  return total;
}

/// Merges what the block's threads of one lane hold; the threads with threadIdx.y = 0 get the result.
template <int n>
__device__ __forceinline__ void merge_over_rows(Moments<n>& moments) {
  TRAINER_SHARED(Moments<n>, upper, tile_threads / 2);
  for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
    if (threadIdx.y >= rows && threadIdx.y < 2 * rows) {
      upper[(threadIdx.y - rows) * blockDim.x + threadIdx.x] = moments;
    }
    __syncthreads();
    if (threadIdx.y < rows) merge(moments, upper[threadIdx.y * blockDim.x + threadIdx.x]);
    __syncthreads();
  }
}

}  // namespace trainer::cuda
