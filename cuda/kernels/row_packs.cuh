#pragma once
// One row of a matrix for each warp or, where it is long, for each block: the thread along x with number t has the
// packs t, t + row_threads, … of its row. The first few stay in registers, so that a row is read once from memory; the
// others are read again each time.

#include "cuda/kernels/grid.h"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {

inline constexpr int row_block_threads = 256;
inline constexpr int packs_in_registers = 4;

template <int row_threads>
__device__ __forceinline__ std::int64_t row_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * (row_block_threads / row_threads) + threadIdx.y;
}
template <int row_threads>
Dim3 row_grid(std::int64_t rows) {
  return grid_of(num_blocks(rows, row_block_threads / row_threads));
}
template <int row_threads>
Dim3 row_block() {
  return {row_threads, row_block_threads / row_threads};
}

/// Calls function(std::integral_constant<int, row_threads>{}) for rows in packs of n.
template <int n, typename Function>
void with_row_threads(std::int64_t columns, Function&& function) {
  if (columns <= warp_size * packs_in_registers * n) {
    function(std::integral_constant<int, warp_size>{});
  } else {
    function(std::integral_constant<int, row_block_threads>{});
  }
}

/// The sum over the row's threads, for each of them.
template <int row_threads>
__device__ __forceinline__ float row_sum(float value) {
  if constexpr (row_threads == warp_size) {
    return warp_sum(value);
  } else {
    return block_sum<row_threads>(value);
  }
}

template <typename T, int n, int row_threads>
class RowPacks {
 public:
  __device__ __forceinline__ RowPacks(const T* row, std::int64_t columns) : columns_(columns) {
    for (int k = 0; k < packs_in_registers; ++k) {
      if (column(k) < columns_) kept_[k] = load_floats<n>(row + column(k));
    }
  }

  /// Adds to them another row of the same length and stores what that gives, rounded to T. From here on `sum` is the
  /// row to be given below; it may be either.
  __device__ __forceinline__ void add(const T* row, const T* addend, T* sum) {
    for (int k = 0; k < packs_in_registers; ++k) {
      if (column(k) < columns_) kept_[k] = add(kept_[k], addend + column(k), sum + column(k));
    }
    for (std::int64_t at = column(packs_in_registers); at < columns_; at += row_threads * n) {
      add(load_floats<n>(row + at), addend + at, sum + at);
    }
  }

  /// Calls function(column, pack) for each pack of this thread; `row` as given before.
  template <typename Function>
  __device__ __forceinline__ void visit(const T* row, Function&& function) const {
    for (int k = 0; k < packs_in_registers; ++k) {
      if (column(k) < columns_) function(column(k), kept_[k]);
    }
    for (std::int64_t at = column(packs_in_registers); at < columns_; at += row_threads * n) {
      function(at, load_floats<n>(row + at));
    }
  }

  /// Those of two rows of the same length, side by side.
  template <typename Function>
  __device__ __forceinline__ void visit_with(const T* row, const RowPacks& other, const T* other_row,
                                             Function&& function) const {
    for (int k = 0; k < packs_in_registers; ++k) {
      if (column(k) < columns_) function(column(k), kept_[k], other.kept_[k]);
    }
    for (std::int64_t at = column(packs_in_registers); at < columns_; at += row_threads * n) {
      function(at, load_floats<n>(row + at), load_floats<n>(other_row + at));
    }
  }

 private:
  __device__ __forceinline__ static std::int64_t column(int k) {
    return (static_cast<std::int64_t>(k) * row_threads + threadIdx.x) * n;
  }
  __device__ __forceinline__ static Pack<float, n> add(const Pack<float, n>& pack, const T* addend, T* sum) {
    Pack<float, n> result = load_floats<n>(addend);
    for (int i = 0; i < n; ++i) result.values[i] = to_float(from_float<T>(pack.values[i] + result.values[i]));
    store_floats(sum, result);
    return result;
  }

  std::int64_t columns_;
  Pack<float, n> kept_[packs_in_registers]{};
};

}  // namespace trainer::cuda
