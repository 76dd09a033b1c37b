#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/layernorm.h"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/row_packs.cuh"

namespace trainer::cuda {

namespace {

/// Rows whose loads are on their way together.
constexpr int layernorm_rows_at_once = 4;

/// Sums of one part of the rows: Σ dy and Σ dy·x̂, as a pair for the next launch, or as dbias and dweight where there is
/// none.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    layernorm_gradient_sums_kernel(const T* dy, const T* x, const float* mean, const float* rstd, SumPair* pairs,
                                   float* dweight, float* dbias, RowParts parts, std::int64_t rows,
                                   std::int64_t columns, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition position = tile_position<n>(num_tiles, columns);
  const std::int64_t begin = position.row_group * parts.rows_per_part;
  const std::int64_t end = begin + parts.rows_per_part < rows ? begin + parts.rows_per_part : rows;
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
        sums.second[i] += g[u].values[i] * ((values[u].values[i] - mean[at]) * rstd[at]);
      }
    }
  }
  add_over_rows(sums);
  if (threadIdx.y != 0 || !position.active) return;
  if (pairs != nullptr) {
    store_pairs(pairs + position.row_group * columns + position.channel, sums.first, sums.second);
    return;
  }
  for (int i = 0; i < n; ++i) {
    dbias[position.channel + i] = sums.first[i];
    dweight[position.channel + i] = sums.second[i];
  }
}

__global__ void __launch_bounds__(combined_channels* combining_threads)
    layernorm_settle_gradients_kernel(const SumPair* pairs, std::int64_t num_parts, float* dweight, float* dbias,
                                      std::int64_t columns) {
  wait_for_earlier_kernels();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const DoubleSums sums = sum_of_parts(pairs, num_parts, column, columns);
  if (threadIdx.y != 0 || column >= columns) return;
  dbias[column] = static_cast<float>(sums.first);
  dweight[column] = static_cast<float>(sums.second);
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
  const float centre = mean[row];
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
  sum = row_sum<row_threads>(sum) / static_cast<float>(columns);
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
      if (operands.dweight != nullptr) {  // before dx is written, which may be dy
        const ChannelTiles tiles = channel_tiles(shape.columns / n, warp_size);
        const RowParts parts = row_parts(shape.rows, shape.columns);
        SumPair* const pairs = parts.num_parts > 1 ? static_cast<SumPair*>(operands.workspace) : nullptr;
        launch(layernorm_gradient_sums_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(), stream, dy, x,
               operands.mean, operands.rstd, pairs, operands.dweight, operands.dbias, parts, shape.rows, shape.columns,
               tiles.num_tiles);
        if (pairs != nullptr) {
          launch(layernorm_settle_gradients_kernel, combining_grid(shape.columns), combining_block(), stream, pairs,
                 parts.num_parts, operands.dweight, operands.dbias, shape.columns);
        }
      }
      with_row_threads<n>(shape.columns, [&](auto threads) {
        constexpr int row_threads = decltype(threads)::value;
        launch(layernorm_backward_kernel<T, n, row_threads>, row_grid<row_threads>(shape.rows),
               row_block<row_threads>(), stream, dy, x, operands.mean, operands.rstd, operands.weight, added, dx,
               shape.rows, shape.columns);
      });
    });
  });
}

}  // namespace trainer::cuda
