#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/layernorm.h"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/row_packs.cuh"

namespace trainer::cuda {

namespace {

/// Rows whose loads are on their way together.
constexpr int layernorm_rows_at_once = 4;

/// Σ dy and Σ dy·x̂ of one part of the rows and n columns: as pairs for the next launch, or as dbias and dweight where
/// there is none.
template <int n>
__device__ __forceinline__ void store_sums(const ColumnSums<n>& sums, std::int64_t part, std::int64_t column,
                                           std::int64_t columns, SumPair* pairs, float* dweight, float* dbias) {
  if (pairs != nullptr) {
    store_pairs(pairs + part * columns + column, sums.first, sums.second);
    return;
  }
  for (int i = 0; i < n; ++i) {
    if (dbias != nullptr) dbias[column + i] = sums.first[i];
    dweight[column + i] = sums.second[i];
  }
}

__device__ __forceinline__ float mean_of_row(const float* mean, std::int64_t row) {
  return mean == nullptr ? 0.0f : mean[row];
}

// The sums of one part of the rows and a tile of the columns.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    layernorm_gradient_sums_kernel(const T* dy, const T* x, const float* mean, const float* rstd, SumPair* pairs,
                                   float* dweight, float* dbias, RowParts parts, std::int64_t rows,
                                   std::int64_t columns, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition position = tile_position<n>(num_tiles, columns);
  const auto [begin, end] = position.rows_of_group(parts.rows_per_part, rows);
  ColumnSums<n> sums{};
  for (std::int64_t row = begin + threadIdx.y; position.active && row < end;
       row += layernorm_rows_at_once * blockDim.y) {
    Pack<float, n> g[layernorm_rows_at_once]{}, values[layernorm_rows_at_once]{};
    for (int u = 0; u < layernorm_rows_at_once; ++u) {
      const std::int64_t at = row + u * blockDim.y;
      if (at >= end) continue;
      g[u] = load_floats<n>(dy + at * columns + position.channel);
      values[u] = load_floats<n>(x + at * columns + position.channel);
    }
    for (int u = 0; u < layernorm_rows_at_once; ++u) {
      const std::int64_t at = row + u * blockDim.y;
      if (at >= end) continue;
      for (int i = 0; i < n; ++i) {
        sums.first[i] += g[u].values[i];
        sums.second[i] += g[u].values[i] * ((values[u].values[i] - mean_of_row(mean, at)) * rstd[at]);
      }
    }
  }
  add_over_rows(sums);
  if (threadIdx.y != 0 || !position.active) return;
  store_sums(sums, position.row_group, position.channel, columns, pairs, dweight, dbias);
}

__global__ void __launch_bounds__(combined_channels* combining_threads)
    layernorm_settle_gradients_kernel(const SumPair* pairs, std::int64_t num_parts, float* dweight, float* dbias,
                                      std::int64_t columns) {
  wait_for_earlier_kernels();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const DoubleSums sums = sum_of_parts(pairs, num_parts, column, columns);
  if (threadIdx.y != 0 || column >= columns) return;
  if (dbias != nullptr) dbias[column] = static_cast<float>(sums.first);
  dweight[column] = static_cast<float>(sums.second);
}

/// Elements of a row that a thread of layernorm_backward_at_once_kernel has at most, and its blocks that stand on an SM
/// together: their threads have up to 128 registers.
constexpr int layernorm_thread_elements = 16, layernorm_blocks_at_once = 2;
static_assert(layernorm_backward_is_one_pass({.columns = row_block_threads * layernorm_thread_elements}) &&
              !layernorm_backward_is_one_pass({.columns = row_block_threads * layernorm_thread_elements + 1}));

/// Of one row the packs t, t + row_threads, … of the thread along x with number t, as they are stored: packs of floats
/// would take twice the registers.
template <typename T, int n, int row_threads, int num_packs>
struct StoredRow {
  Pack<T, n> dy[num_packs], x[num_packs];
  float mean, rstd;

  __device__ __forceinline__ static int column(int k) { return (k * row_threads + static_cast<int>(threadIdx.x)) * n; }
  /// From where the row's first packs of this thread stand, and its statistics.
  __device__ __forceinline__ void load(const T* dys, const T* xs, const float* row_mean, const float* row_rstd,
                                       int columns) {
    for (int k = 0; k < num_packs; ++k) {
      if (column(k) >= columns) continue;
      dy[k] = load_pack<n>(dys + k * row_threads * n);
      x[k] = load_pack<n>(xs + k * row_threads * n);
    }
    mean = row_mean == nullptr ? 0.0f : *row_mean;
    rstd = *row_rstd;
  }
  __device__ __forceinline__ float normal(int k, int i) const { return (to_float(x[k].values[i]) - mean) * rstd; }
};

/// The sums of two numbers over the threads of each of the block's rows; `step` counts the calls of the block.
template <int row_threads>
__device__ __forceinline__ SumPair row_sums(float first, float second, int step) {
  first = warp_sum(first);
  second = warp_sum(second);
  if constexpr (row_threads > warp_size) {
    // The next call writes the other half, so that one barrier is enough.
    constexpr int warps_of_block = row_block_threads / warp_size, warps_of_row = row_threads / warp_size;
    TRAINER_SHARED(SumPair, of_warp, 2 * warps_of_block);
    SumPair* const of_row = of_warp + step % 2 * warps_of_block + threadIdx.y * warps_of_row;
    if (threadIdx.x % warp_size == 0) of_row[threadIdx.x / warp_size] = {first, second};
    __syncthreads();
    first = of_row[0].values[0];
    second = of_row[0].values[1];
    for (int warp = 1; warp < warps_of_row; ++warp) {
      first += of_row[warp].values[0];
      second += of_row[warp].values[1];
    }
  }
  return {first, second};
}

// dx and the sums of one part of the rows, whose threads keep their columns' weights and sums from row to row. dx may
// be dy or the added gradient: a thread writes what it alone has read.
template <typename T, int n, int row_threads, int num_packs>
__global__ void __launch_bounds__(row_block_threads, layernorm_blocks_at_once)
    layernorm_backward_at_once_kernel(const T* dy, const T* x, const float* mean, const float* rstd,
                                      const float* weight, const T* added_gradient, T* dx, SumPair* pairs,
                                      float* dweight, float* dbias, RowParts parts, std::int64_t rows, int columns) {
  wait_for_earlier_kernels();
  using Row = StoredRow<T, n, row_threads, num_packs>;
  constexpr int rows_at_once = row_block_threads / row_threads;
  // The next row is on its way while this one is computed, where the registers hold both.
  constexpr int registers_of_pack = n * sizeof(T) > 4 ? n * sizeof(T) / 4 : 1;
  constexpr bool loads_ahead = num_packs * registers_of_pack <= 8;
  const std::int64_t begin = blockIdx.x * parts.rows_per_part;
  const int num_rows = static_cast<int>(rows - begin < parts.rows_per_part ? rows - begin : parts.rows_per_part);

  Pack<float, n> scale[num_packs]{};
  ColumnSums<n> sums[num_packs]{};
  for (int k = 0; k < num_packs; ++k) {
    if (Row::column(k) < columns) scale[k] = load_floats_or<n>(weight, Row::column(k), 1.0f);
  }
  Row next{};
  const bool centres = mean != nullptr;
  if (centres) mean += begin;
  rstd += begin;
  int row = static_cast<int>(threadIdx.y);
  std::int64_t at = (begin + row) * columns + Row::column(0);  // of the row's first pack of this thread
  const std::int64_t apart = static_cast<std::int64_t>(rows_at_once) * columns;
  if (loads_ahead && row < num_rows) next.load(dy + at, x + at, centres ? mean + row : nullptr, rstd + row, columns);
  for (int step = 0; step * rows_at_once < num_rows; ++step, row += rows_at_once, at += apart) {
    const bool active = row < num_rows;  // all threads of the row together
    Row stored{};
    if constexpr (loads_ahead) {
      stored = next;
      if (row + rows_at_once < num_rows) {
        next.load(dy + at + apart, x + at + apart, centres ? mean + row + rows_at_once : nullptr,
                  rstd + row + rows_at_once, columns);
      }
    } else if (active) {
      stored.load(dy + at, x + at, centres ? mean + row : nullptr, rstd + row, columns);
    }
    Pack<T, n> added[num_packs]{};
    for (int k = 0; k < num_packs; ++k) {
      if (!active || added_gradient == nullptr || Row::column(k) >= columns) continue;
      added[k] = load_pack<n>(added_gradient + at + k * row_threads * n);
    }
    float sum = 0, product = 0;
    for (int k = 0; k < num_packs; ++k) {
      if (!active || Row::column(k) >= columns) continue;
      for (int i = 0; i < n; ++i) {
        const float gradient = to_float(stored.dy[k].values[i]);
        const float normal = stored.normal(k, i);
        sums[k].first[i] += gradient;
        sums[k].second[i] += gradient * normal;
        const float g = gradient * scale[k].values[i];
        sum += g;
        product += g * normal;
      }
    }
    const SumPair of_row = row_sums<row_threads>(sum, product, step);
    sum = centres ? of_row.values[0] / static_cast<float>(columns) : 0.0f;
    product = of_row.values[1] / static_cast<float>(columns);
    for (int k = 0; k < num_packs; ++k) {
      if (!active || Row::column(k) >= columns) continue;
      Pack<float, n> result;
      for (int i = 0; i < n; ++i) {
        const float g = to_float(stored.dy[k].values[i]) * scale[k].values[i];
        result.values[i] = stored.rstd * (g - sum - stored.normal(k, i) * product);
        if (added_gradient != nullptr) result.values[i] += to_float(added[k].values[i]);
      }
      store_floats(dx + at + k * row_threads * n, result);
    }
  }

  for (int k = 0; k < num_packs; ++k) {
    add_over_rows(sums[k]);
    if (threadIdx.y != 0 || Row::column(k) >= columns) continue;
    store_sums(sums[k], blockIdx.x, Row::column(k), columns, pairs, dweight, dbias);
  }
}

/// Calls function(row_threads, num_packs), both std::integral_constant<int, …>, with the fewest threads that hold a row
/// and then the fewest packs of n for each.
template <int n, int row_threads = warp_size, int num_packs = (n < 4 ? 4 / n : 1), typename Function>
void with_threads_and_packs(std::int64_t columns, Function&& function) {
  if (columns <= row_threads * num_packs * n) {
    function(std::integral_constant<int, row_threads>{}, std::integral_constant<int, num_packs>{});
  } else if constexpr (num_packs * n < layernorm_thread_elements) {
    with_threads_and_packs<n, row_threads, 2 * num_packs>(columns, function);
  } else if constexpr (row_threads < row_block_threads) {
    with_threads_and_packs<n, 2 * row_threads, num_packs>(columns, function);
  }
}

// dx may be dy or the added gradient: a thread writes what it alone has read, after both sums over the row are known.
template <typename T, int n, int row_threads>
__global__ void __launch_bounds__(row_block_threads)
    layernorm_backward_kernel(const T* dy, const T* x, const float* mean, const float* rstd, const float* weight,
                              const T* added_gradient, T* dx, std::int64_t rows, std::int64_t columns) {
  wait_for_earlier_kernels();
  const std::int64_t row = row_of_thread<row_threads>();
  if (row >= rows) return;  // all threads of the row together
  const T* const gradients = dy + row * columns;
  const T* const values = x + row * columns;
  const RowPacks<T, n, row_threads> kept_gradients(gradients, columns);
  const RowPacks<T, n, row_threads> kept_values(values, columns);
  const float centre = mean_of_row(mean, row);
  const float reciprocal = rstd[row];

  float sum = 0, product = 0;
  kept_gradients.visit_with(gradients, kept_values, values,
                            [&](std::int64_t column, const Pack<float, n>& gradient, const Pack<float, n>& value) {
                              const Pack<float, n> scale = load_floats_or<n>(weight, column, 1.0f);
                              for (int i = 0; i < n; ++i) {
                                const float g = gradient.values[i] * scale.values[i];
                                sum += g;
                                product += g * ((value.values[i] - centre) * reciprocal);
                              }
                            });
  sum = mean != nullptr ? row_sum<row_threads>(sum) / static_cast<float>(columns) : 0.0f;
  product = row_sum<row_threads>(product) / static_cast<float>(columns);
  kept_gradients.visit_with(gradients, kept_values, values,
                            [&](std::int64_t column, const Pack<float, n>& gradient, const Pack<float, n>& value) {
                              const Pack<float, n> scale = load_floats_or<n>(weight, column, 1.0f);
                              Pack<float, n> result;
                              for (int i = 0; i < n; ++i) {
                                const float g = gradient.values[i] * scale.values[i];
                                result.values[i] =
                                    reciprocal * (g - sum - (value.values[i] - centre) * reciprocal * product);
                              }
                              if (added_gradient != nullptr) {
                                const Pack<float, n> added = load_floats<n>(added_gradient + row * columns + column);
                                for (int i = 0; i < n; ++i) result.values[i] += added.values[i];
                              }
                              store_floats(dx + row * columns + column, result);
                            });
}

}  // namespace

void layernorm_backward(DType type, const LayerNormBackward& operands, const LayerNormShape& shape, Stream stream) {
  if (shape.rows == 0 || shape.columns == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const T* const dy = static_cast<const T*>(operands.dy);
    const T* const x = static_cast<const T*>(operands.x);
    const T* const added = static_cast<const T*>(operands.added_gradient);
    T* const dx = static_cast<T*>(operands.dx);
    with_pack_width<T>(shape.columns, {dy, x, added, dx, operands.weight, operands.workspace}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const RowParts parts = layernorm_row_parts(shape);
      SumPair* const pairs = parts.num_parts > 1 ? static_cast<SumPair*>(operands.workspace) : nullptr;
      const bool wants_sums = operands.dweight != nullptr;
      if (wants_sums && layernorm_backward_is_one_pass(shape)) {
        with_threads_and_packs<n>(shape.columns, [&](auto threads, auto packs) {
          constexpr int row_threads = decltype(threads)::value, num_packs = decltype(packs)::value;
          launch(layernorm_backward_at_once_kernel<T, n, row_threads, num_packs>, grid_of(parts.num_parts),
                 row_block<row_threads>(), stream, dy, x, operands.mean, operands.rstd, operands.weight, added, dx,
                 pairs, operands.dweight, operands.dbias, parts, shape.rows, static_cast<int>(shape.columns));
        });
      } else {
        if (wants_sums) {  // before dx is written, which may be dy
          const ChannelTiles tiles = channel_tiles(shape.columns / n, warp_size);
          launch(layernorm_gradient_sums_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(), stream, dy, x,
                 operands.mean, operands.rstd, pairs, operands.dweight, operands.dbias, parts, shape.rows,
                 shape.columns, tiles.num_tiles);
        }
        with_row_threads<n>(shape.columns, [&](auto threads) {
          constexpr int row_threads = decltype(threads)::value;
          launch(layernorm_backward_kernel<T, n, row_threads>, row_grid<row_threads>(shape.rows),
                 row_block<row_threads>(), stream, dy, x, operands.mean, operands.rstd, operands.weight, added, dx,
                 shape.rows, shape.columns);
        });
      }
      if (wants_sums && pairs != nullptr) {
        launch(layernorm_settle_gradients_kernel, combining_grid(shape.columns), combining_block(), stream, pairs,
               parts.num_parts, operands.dweight, operands.dbias, shape.columns);
      }
    });
  });
}

}  // namespace trainer::cuda
