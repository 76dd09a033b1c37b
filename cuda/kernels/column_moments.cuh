#pragma once
// Mean and squared deviations over the rows for each channel, without the cancellation of Σx² − (Σx)²/n: of some rows
// at a time, merged by the formula of Chan, Golub and LeVeque (1979). Means are those of x − shift with shift = x's
// first row, so that the mean of numbers that lie close together far from 0 keeps its digits.

#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

/// Rows of a thread whose loads are on their way together.
inline constexpr int moment_rows_at_once = 4;
/// Rows of a thread that are summed up before they are merged.
inline constexpr int merged_rows = 16;

template <int n>
struct Moments {
  float mean[n], squares[n];  ///< squares: Σ (value − mean)²
  float count;
};

template <int n>
__device__ __forceinline__ void merge(Moments<n>& into, const Moments<n>& other) {
  if (other.count == 0) return;
  const float count = into.count + other.count;
  const float share = other.count / count;
  const float weight = share * into.count;
  for (int i = 0; i < n; ++i) {
    const float difference = other.mean[i] - into.mean[i];
    into.mean[i] += difference * share;
    into.squares[i] += other.squares[i] + difference * difference * weight;
  }
  into.count = count;
}

/// Of rows begin + threadIdx.y, then every blockDim.y-th, below end.
///
/// The k rows that are summed up are taken as d = x − pivot, and their squares are Σd² − (Σd)²/k. The pivot is the mean
/// of the first m = moment_rows_at_once of them (of the first, where there are fewer), so that (Σd)²/k is at most k/m
/// times the result: two bits of it may be lost, whatever the numbers are.
template <int n, typename T>
__device__ __forceinline__ Moments<n> moments_of_rows(const T* x, const TilePosition& position, std::int64_t channels,
                                                      std::int64_t begin, std::int64_t end) {
  Moments<n> total{};
  if (!position.active) return total;
  const int rows_of_block = merged_rows * static_cast<int>(blockDim.y);
  for (; begin + threadIdx.y < end; begin += rows_of_block) {
    Pack<float, n> pivot{}, sum{}, squares{};
    int count = 0;
    visit_rows<moment_rows_at_once>(begin, begin + rows_of_block < end ? begin + rows_of_block : end, position.channel,
                                    channels, [&](std::int64_t at, std::int64_t step, auto rows) {
                                      constexpr int num_rows = decltype(rows)::value;
                                      Pack<T, n> values[num_rows];
                                      for (int u = 0; u < num_rows; ++u) values[u] = load_pack<n>(x + at + u * step);
                                      if (count == 0) {
                                        for (int i = 0; i < n; ++i) {
                                          const float one = to_float(values[0].values[i]);
                                          float others = 0;
                                          for (int u = 1; u < num_rows; ++u)
                                            others += to_float(values[u].values[i]) - one;
                                          pivot.values[i] = one + others / static_cast<float>(num_rows);
                                        }
                                      }
                                      for (int u = 0; u < num_rows; ++u) {
                                        for (int i = 0; i < n; ++i) {
                                          const float difference = to_float(values[u].values[i]) - pivot.values[i];
                                          sum.values[i] += difference;
                                          squares.values[i] += difference * difference;
                                        }
                                      }
                                      count += num_rows;
                                    });
    const Pack<float, n> shift = load_floats<n>(x + position.channel);
    Moments<n> some;
    some.count = static_cast<float>(count);
    const float factor = 1.0f / some.count;
    for (int i = 0; i < n; ++i) {
      const float mean = sum.values[i] * factor;
      const float rest = squares.values[i] - sum.values[i] * mean;
      some.mean[i] = (pivot.values[i] - shift.values[i]) + mean;
      some.squares[i] = rest < 0 ? 0.0f : rest;  // a comparison keeps NaN
    }
    merge(total, some);
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
