#include "cuda/kernels/repeat_row.h"

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr int most_repeating_lanes = 32;
constexpr int summing_lanes = 32, summing_rows = tile_threads / summing_lanes;
constexpr int rows_of_f32_sum = 32;  // bounds the rounding error whatever the number of rows

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    repeat_row_kernel(const T* __restrict__ from, T* __restrict__ y, std::int64_t rows, std::int64_t columns,
                      std::int64_t rows_per_block, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, columns);
  if (!at.active) return;
  const Pack<T, n> values = load_pack<n>(from + at.channel);
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y)
    store_pack(y + row * columns + at.channel, values);
}

/// A block has summing_lanes columns; threads along y take every summing_rows-th row.
template <typename T>
__global__ void __launch_bounds__(tile_threads)
    sum_rows_kernel(const T* __restrict__ x, T* __restrict__ sum, std::int64_t rows, std::int64_t columns) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(double, of_threads, tile_threads);
  const std::int64_t column = std::int64_t{blockIdx.x} * summing_lanes + threadIdx.x;
  double total = 0;
  for (std::int64_t first = threadIdx.y; column < columns && first < rows; first += rows_of_f32_sum * summing_rows) {
    float part = 0;
    for (int i = 0; i < rows_of_f32_sum; ++i) {
      const std::int64_t row = first + i * summing_rows;
      if (row < rows) part += to_float(x[row * columns + column]);
    }
    total += part;
  }
  of_threads[threadIdx.y * summing_lanes + threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int y = 1; y < summing_rows; ++y) total += of_threads[y * summing_lanes + threadIdx.x];
  sum[column] = from_float<T>(static_cast<float>(total));
}

}  // namespace

void repeat_row(DType type, const void* row, void* y, std::int64_t rows, std::int64_t columns, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(columns, {row, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(columns / n, most_repeating_lanes);
      const std::int64_t rows_per_block = tiles.rows_per_block(rows);
      launch(repeat_row_kernel<T, n>, tiles.grid(num_blocks(rows, rows_per_block)), tiles.block(), stream,
             static_cast<const T*>(row), static_cast<T*>(y), rows, columns, rows_per_block, tiles.num_tiles);
    });
  });
}

void sum_rows(DType type, const void* x, void* sum, std::int64_t rows, std::int64_t columns, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    launch(sum_rows_kernel<T>, grid_of(num_blocks(columns, summing_lanes)), {summing_lanes, summing_rows}, stream,
           static_cast<const T*>(x), static_cast<T*>(sum), rows, columns);
  });
}

}  // namespace trainer::cuda
