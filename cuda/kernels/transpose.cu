#include "cuda/kernels/transpose.h"

#include <algorithm>

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {
namespace {

constexpr int tile = 32;
constexpr int tile_rows = 8;  // that the threads of a block move at once

/// One block a tile: read by rows and written by rows, each a warp's neighbouring elements.
template <typename T>
__global__ void __launch_bounds__(tile* tile_rows)
    transpose_tile_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, std::int64_t columns,
                          unsigned row_tiles, unsigned column_tiles) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(T, values, tile * (tile + 1));  // one more, so that a column lies in different banks
  const std::int64_t matrix = blockIdx.x / column_tiles / row_tiles;
  const std::int64_t first_row = std::int64_t{blockIdx.x / column_tiles % row_tiles} * tile;
  const std::int64_t first_column = std::int64_t{blockIdx.x % column_tiles} * tile;
  const int lane = static_cast<int>(threadIdx.x % tile), line = static_cast<int>(threadIdx.x / tile);
  x += matrix * rows * columns;
  y += matrix * rows * columns;
  for (int i = line; i < tile; i += tile_rows) {
    const std::int64_t row = first_row + i, column = first_column + lane;
    if (row < rows && column < columns) values[i * (tile + 1) + lane] = x[row * columns + column];
  }
  __syncthreads();
  for (int i = line; i < tile; i += tile_rows) {
    const std::int64_t row = first_row + lane, column = first_column + i;
    if (row < rows && column < columns) y[column * rows + row] = values[lane * (tile + 1) + i];
  }
}

/// One thread an element of y. For matrices so narrow that most of a tile would be outside of them; what a warp reads
/// then lies close together all the same. Index is 32 bits wide where that is enough: its divisions are cheaper.
template <typename T, typename Index>
__global__ void __launch_bounds__(elementwise_threads)
    transpose_narrow_kernel(const T* __restrict__ x, T* __restrict__ y, Index count, Index rows, Index columns) {
  wait_for_earlier_kernels();
  const Index i = static_cast<Index>(blockIdx.x) * elementwise_threads + threadIdx.x;
  if (i >= count) return;
  const Index line = i / rows;  // of y, over all matrices
  const Index matrix = line / columns;
  y[i] = x[(matrix * rows + (i - line * rows)) * columns + (line - matrix * columns)];
}

template <typename Index, typename T>
void transpose_narrow(const T* x, T* y, std::int64_t count, std::int64_t rows, std::int64_t columns, Stream stream) {
  launch(transpose_narrow_kernel<T, Index>, elementwise_grid(count, 1), {elementwise_threads}, stream, x, y,
         static_cast<Index>(count), static_cast<Index>(rows), static_cast<Index>(columns));
}

template <typename T>
void transpose_elements(const T* x, T* y, std::int64_t batch, std::int64_t rows, std::int64_t columns, Stream stream) {
  if (std::min(rows, columns) < tile / 2) {
    const std::int64_t count = batch * rows * columns;
    if (count <= 0x7FFFFFFF) {
      transpose_narrow<std::uint32_t>(x, y, count, rows, columns, stream);
    } else {
      transpose_narrow<std::uint64_t>(x, y, count, rows, columns, stream);
    }
    return;
  }
  const std::int64_t row_tiles = num_blocks(rows, tile), column_tiles = num_blocks(columns, tile);
  launch(transpose_tile_kernel<T>, grid_of(batch * row_tiles * column_tiles), {tile * tile_rows}, stream, x, y, rows,
         columns, static_cast<unsigned>(row_tiles), static_cast<unsigned>(column_tiles));
}

}  // namespace

void transpose(DType type, const void* x, void* y, std::int64_t batch, std::int64_t rows, std::int64_t columns,
               Stream stream) {
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    transpose_elements(static_cast<const T*>(x), static_cast<T*>(y), batch, rows, columns, stream);
  });
}

}  // namespace trainer::cuda
