#include "cuda/kernels/bias_gradient.h"

#include <algorithm>

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

/// Rows whose loads are on their way together.
constexpr int bias_rows_at_once = 4;
constexpr int most_lanes = 32;

/// Sums over one part of the rows; writes them to `sums` + part · columns, of the type D, or adds them there.
template <typename T, int n, typename D>
__global__ void __launch_bounds__(tile_threads)
    bias_gradient_kernel(const T* __restrict__ dy, D* __restrict__ sums, std::int64_t rows, std::int64_t columns,
                         std::int64_t rows_per_part, std::int64_t num_tiles, bool adds) {
  wait_for_earlier_kernels();
  using Sums = Pack<float, n>;
  TRAINER_SHARED(Sums, upper, tile_threads / 2);
  const TilePosition at = tile_position<n>(num_tiles, columns);
  Sums sum{};
  if (at.active) {
    const auto [begin, end] = at.rows_of_group(rows_per_part, rows);
    for (std::int64_t row = begin + threadIdx.y; row < end; row += bias_rows_at_once * blockDim.y) {
      Sums values[bias_rows_at_once]{};
      for (int u = 0; u < bias_rows_at_once; ++u) {
        const std::int64_t r = row + u * blockDim.y;
        if (r < end) values[u] = load_floats<n>(dy + r * columns + at.channel);
      }
      for (int i = 0; i < n; ++i) {
        sum.values[i] += (values[0].values[i] + values[1].values[i]) + (values[2].values[i] + values[3].values[i]);
      }
    }
  }
  for (unsigned half_rows = blockDim.y / 2; half_rows > 0; half_rows /= 2) {
    if (threadIdx.y >= half_rows && threadIdx.y < 2 * half_rows) {
      upper[(threadIdx.y - half_rows) * blockDim.x + threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.y < half_rows) {
      const Sums& other = upper[threadIdx.y * blockDim.x + threadIdx.x];
      for (int i = 0; i < n; ++i) sum.values[i] += other.values[i];
    }
    __syncthreads();
  }
  if (threadIdx.y > 0 || !at.active) return;
  D* const result = sums + at.row_group * columns + at.channel;
  for (int i = 0; i < n; ++i) {
    const float earlier = adds ? to_float(result[i]) : 0.0f;
    result[i] = from_float<D>(earlier + sum.values[i]);
  }
}

constexpr int combined_columns = 8, threads_of_column = 32;

/// db = the sums of all parts, or is added to; threads along x have a column each, those along y every 32nd part.
template <typename T>
__global__ void __launch_bounds__(combined_columns* threads_of_column)
    combine_bias_gradient_kernel(const float* __restrict__ sums, T* __restrict__ db, std::int64_t num_parts,
                                 std::int64_t columns, bool adds) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(double, of_thread, combined_columns* threads_of_column);
  const std::int64_t column = std::int64_t{blockIdx.x} * combined_columns + threadIdx.x;
  double sum = 0;
  if (column < columns) {
    for (std::int64_t part = threadIdx.y; part < num_parts; part += threads_of_column) {
      sum += static_cast<double>(sums[part * columns + column]);
    }
  }
  of_thread[threadIdx.y * combined_columns + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int y = 1; y < threads_of_column; ++y) sum += of_thread[y * combined_columns + threadIdx.x];
  if (adds) sum += static_cast<double>(to_float(db[column]));
  db[column] = from_float<T>(static_cast<float>(sum));
}

template <typename T, typename D>
void sum_parts(const T* dy, D* sums, std::int64_t rows, std::int64_t columns, const RowParts& parts, bool adds,
               Stream stream) {
  with_pack_width<T>(columns, {dy}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    const ChannelTiles tiles = channel_tiles(columns / n, most_lanes);
    launch(bias_gradient_kernel<T, n, D>, tiles.grid(parts.num_parts), tiles.block(), stream, dy, sums, rows, columns,
           parts.rows_per_part, tiles.num_tiles, adds);
  });
}

template <typename T, typename D>
void sum_rows(const T* dy, D* db, std::int64_t rows, std::int64_t columns, float* sums, bool adds, Stream stream) {
  const RowParts parts = row_parts(rows, columns);
  if (parts.num_parts == 1) return sum_parts(dy, db, rows, columns, parts, adds, stream);
  sum_parts(dy, sums, rows, columns, parts, false, stream);
  launch(combine_bias_gradient_kernel<D>, {static_cast<unsigned>(num_blocks(columns, combined_columns))},
         {combined_columns, threads_of_column}, stream, static_cast<const float*>(sums), db, parts.num_parts, columns,
         adds);
}

}  // namespace

void bias_gradient(DType type, const void* dy, void* db, std::int64_t rows, std::int64_t columns, void* workspace,
                   Stream stream, const BiasGradientOptions& options) {
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto* const values = static_cast<const T*>(dy);
    auto* const sums = static_cast<float*>(workspace);
    if (options.f32_result) {
      sum_rows(values, static_cast<float*>(db), rows, columns, sums, options.adds, stream);
    } else {
      sum_rows(values, static_cast<T*>(db), rows, columns, sums, options.adds, stream);
    }
  });
}

}  // namespace trainer::cuda
