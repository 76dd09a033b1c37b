#include "cuda/kernels/batchnorm2d.h"
#include "cuda/kernels/batchnorm2d_line.cuh"
#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/pack.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

/// Rows of a thread whose loads are on their way together.
constexpr int backward_rows_at_once = 2;
/// As in the forward pass.
constexpr int backward_lanes_of_one_launch = 8;

template <typename T>
struct GradientOperands {
  const T* dy;
  const T* x;
  const T* y;  ///< null: computed anew where it is asked for
  T* dx;       ///< may be dy where daddend is not, or y: a thread reads a place before it writes there
  T* daddend;  ///< may be dy; null where y is
  const float* mean;
  const float* rstd;
  const float* weight;
  const float* bias;
  float* dweight;
  float* dbias;
  std::int64_t rows, channels;
  bool relu;
  float ceiling;

  template <int n>
  __device__ __forceinline__ Normalization<n> normalization(std::int64_t channel) const {
    return normalization_of<n>(mean, rstd, weight, bias, channel);
  }
  /// For what comes after the sums: g is read where it was stored.
  __device__ __host__ __forceinline__ GradientOperands after_sums() const {
    GradientOperands result = *this;
    if (daddend != nullptr) {
      result.dy = daddend;
      result.relu = false;
    }
    return result;
  }
};

/// Some rows of dy and x. They stay as they are stored, and which of dy count is a bit for each: packs of floats would
/// take twice the registers. A null y is computed anew.
template <typename T, int n, int num_rows>
struct LoadedRows {
  Pack<T, n> dy[num_rows], x[num_rows];
  unsigned counts[num_rows];

  __device__ __forceinline__ LoadedRows(const GradientOperands<T>& operands, const T* all_y,
                                        const Normalization<n>& line, std::int64_t at, std::int64_t step) {
    for (int u = 0; u < num_rows; ++u) {
      dy[u] = load_pack<n>(operands.dy + at + u * step);
      x[u] = load_pack<n>(operands.x + at + u * step);
      counts[u] = ~0u;
    }
    if (!operands.relu) return;
    if (all_y == nullptr) {
      for (int u = 0; u < num_rows; ++u) {
        counts[u] = 0;
        for (int i = 0; i < n; ++i) {
          const float value = line(to_float(x[u].values[i]), i);
          counts[u] |= value > 0 && !(value >= operands.ceiling) ? 1u << i : 0u;
        }
      }
      return;
    }
    Pack<T, n> y[num_rows];
    for (int u = 0; u < num_rows; ++u) y[u] = load_pack<n>(all_y + at + u * step);
    for (int u = 0; u < num_rows; ++u) {
      counts[u] = 0;
      for (int i = 0; i < n; ++i) counts[u] |= to_float(y[u].values[i]) > 0 ? 1u << i : 0u;
    }
  }
  /// dy where it counts.
  __device__ __forceinline__ float g(int u, int i) const {
    return (counts[u] >> i & 1u) != 0 ? to_float(dy[u].values[i]) : 0.0f;
  }
};

/// Σg and Σ g·(x − mean) of rows begin + threadIdx.y, then every blockDim.y-th, below end. Stores g as daddend.
template <int n, typename T>
__device__ __forceinline__ ColumnSums<n> sums_of_rows(const GradientOperands<T>& operands, const TilePosition& position,
                                                      std::int64_t begin, std::int64_t end) {
  ColumnSums<n> total{};
  if (!position.active) return total;
  const auto line = operands.template normalization<n>(position.channel);
  visit_rows<backward_rows_at_once>(begin, end, position.channel, operands.channels,
                                    [&](std::int64_t at, std::int64_t step, auto rows) {
                                      constexpr int num_rows = decltype(rows)::value;
                                      const LoadedRows<T, n, num_rows> loaded(operands, operands.y, line, at, step);
                                      if (operands.daddend != nullptr) {
                                        for (int u = 0; u < num_rows; ++u) {
                                          Pack<float, n> g;
                                          for (int i = 0; i < n; ++i) g.values[i] = loaded.g(u, i);
                                          store_floats(operands.daddend + at + u * step, g);
                                        }
                                      }
                                      for (int i = 0; i < n; ++i) {
                                        float first = 0, second = 0;
                                        for (int u = 0; u < num_rows; ++u) {
                                          const float g = loaded.g(u, i);
                                          first += g;
                                          second += g * (to_float(loaded.x[u].values[i]) - line.mean.values[i]);
                                        }
                                        total.first[i] += first;
                                        total.second[i] += second;
                                      }
                                    });
  return total;
}

/// From the sums of one channel: its gradients, and what combine_rows takes off g: a constant, and (x − mean) · a
/// factor.
template <typename T>
__device__ __forceinline__ SumPair settle_channel(const GradientOperands<T>& operands, std::int64_t channel, double sum,
                                                  double product) {
  const double rstd = static_cast<double>(operands.rstd[channel]);
  const double count = static_cast<double>(operands.rows);
  if (operands.dweight != nullptr) operands.dweight[channel] = static_cast<float>(product * rstd);
  if (operands.dbias != nullptr) operands.dbias[channel] = static_cast<float>(sum);
  return {static_cast<float>(sum / count), static_cast<float>(rstd * rstd * product / count)};
}

/// dx = slope · (g − constant − (x − mean) · factor) for n channels, whose constants and factors are `pairs`, aligned
/// to all of them; of operands after the sums.
template <int n, typename T>
__device__ __forceinline__ void combine_rows(const GradientOperands<T>& operands, const SumPair* pairs,
                                             std::int64_t channel, std::int64_t begin, std::int64_t end) {
  const auto line = operands.template normalization<n>(channel);
  const Pack<float, 2 * n> taken_off = load_pack<2 * n>(reinterpret_cast<const float*>(pairs));
  visit_rows<backward_rows_at_once>(
      begin, end, channel, operands.channels, [&](std::int64_t at, std::int64_t step, auto rows) {
        constexpr int num_rows = decltype(rows)::value;
        const LoadedRows<T, n, num_rows> loaded(operands, nullptr, line, at, step);
        for (int u = 0; u < num_rows; ++u) {
          Pack<float, n> dx;
          for (int i = 0; i < n; ++i) {
            const float centred = to_float(loaded.x[u].values[i]) - line.mean.values[i];
            const float rest = loaded.g(u, i) - taken_off.values[2 * i] - centred * taken_off.values[2 * i + 1];
            dx.values[i] = line.slope.values[i] * rest;
          }
          store_floats(operands.dx + at + u * step, dx);
        }
      });
}

/// Those of a lane's channels.
template <int n>
struct alignas(16) AlignedPairs {
  SumPair pairs[n];
};

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_backward_at_once_kernel(GradientOperands<T> operands, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  // Of each channel of the tile the sums, then what combine_rows takes off.
  TRAINER_SHARED(AlignedPairs<n>, pairs_of_lanes, warp_size);
  SumPair* const pairs = pairs_of_lanes[0].pairs;
  const TilePosition at = tile_position<n>(num_tiles, operands.channels);
  ColumnSums<n> sums = sums_of_rows<n>(operands, at, 0, operands.rows);
  add_over_rows(sums);
  if (threadIdx.y == 0) {
    for (int i = 0; i < n; ++i) pairs[threadIdx.x * n + i] = {sums.first[i], sums.second[i]};
  }
  __syncthreads();
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const std::int64_t channel = at.channel - threadIdx.x * n + thread;
  if (thread < blockDim.x * n && channel < operands.channels) {
    pairs[thread] = settle_channel(operands, channel, static_cast<double>(pairs[thread].values[0]),
                                   static_cast<double>(pairs[thread].values[1]));
  }
  __syncthreads();
  if (!at.active) return;
  combine_rows<n>(operands.after_sums(), pairs + threadIdx.x * n, at.channel, 0, operands.rows);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, tile_blocks_at_once)
    batchnorm2d_gradient_sums_kernel(GradientOperands<T> operands, SumPair* pairs, RowParts parts,
                                     std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, operands.channels);
  const auto [begin, end] = at.rows_of_group(parts.rows_per_part, operands.rows);
  ColumnSums<n> sums = sums_of_rows<n>(operands, at, begin, end);
  add_over_rows(sums);
  if (threadIdx.y != 0 || !at.active) return;
  store_pairs(pairs + at.row_group * operands.channels + at.channel, sums.first, sums.second);
}

template <typename T>
__global__ void __launch_bounds__(combined_channels* combining_threads)
    batchnorm2d_settle_gradients_kernel(GradientOperands<T> operands, const SumPair* pairs, std::int64_t num_parts,
                                        SumPair* settled) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const DoubleSums sums = sum_of_parts(pairs, num_parts, channel, operands.channels);
  if (threadIdx.y != 0 || channel >= operands.channels) return;
  settled[channel] = settle_channel(operands, channel, sums.first, sums.second);
}

template <typename T>
__global__ void __launch_bounds__(combined_channels* combining_threads)
    batchnorm2d_add_gradient_sums_kernel(GradientOperands<T> operands, const SumPair* pairs, std::int64_t num_parts,
                                         double* result) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const DoubleSums sums = sum_of_parts(pairs, num_parts, channel, operands.channels);
  if (threadIdx.y != 0 || channel >= operands.channels) return;
  settle_channel(operands, channel, sums.first, sums.second);
  result[channel] = sums.first;
  result[operands.channels + channel] = sums.second;
  if (channel == 0) result[2 * operands.channels] = static_cast<double>(operands.rows);
}

/// What combine_rows takes off g, of the sums over all ranks.
__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_settle_sums_kernel(const double* sums, const float* rstd, SumPair* settled, std::int64_t channels) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * tile_threads + threadIdx.x;
  if (channel >= channels) return;
  const double count = sums[2 * channels];
  const double of_channel = static_cast<double>(rstd[channel]);
  settled[channel] = {static_cast<float>(sums[channel] / count),
                      static_cast<float>(of_channel * of_channel * sums[channels + channel] / count)};
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, tile_blocks_at_once)
    batchnorm2d_combine_kernel(GradientOperands<T> operands, const SumPair* settled, std::int64_t rows_per_block,
                               std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, operands.channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, operands.rows);
  combine_rows<n>(operands, settled + at.channel, at.channel, begin, end);
}

}  // namespace

void batchnorm2d_backward(DType type, const BatchNorm2dBackward& operands, const BatchNorm2dShape& shape,
                          Stream stream) {
  require_internal((operands.y == nullptr) == (operands.daddend == nullptr),
                   "batch norm reads its output where it makes the gradient of an addend");
  if (shape.rows == 0 || shape.channels == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const GradientOperands<T> typed = {.dy = static_cast<const T*>(operands.dy),
                                       .x = static_cast<const T*>(operands.x),
                                       .y = static_cast<const T*>(operands.y),
                                       .dx = static_cast<T*>(operands.dx),
                                       .daddend = static_cast<T*>(operands.daddend),
                                       .mean = operands.mean,
                                       .rstd = operands.rstd,
                                       .weight = operands.weight,
                                       .bias = operands.bias,
                                       .dweight = operands.dweight,
                                       .dbias = operands.dbias,
                                       .rows = shape.rows,
                                       .channels = shape.channels,
                                       .relu = operands.relu,
                                       .ceiling = operands.ceiling};
    with_pack_width<T>(shape.channels,
                       {typed.dy, typed.x, typed.y, typed.dx, typed.daddend, typed.mean, typed.rstd, typed.weight,
                        typed.bias, operands.workspace},
                       [&](auto width) {
                         constexpr int n = decltype(width)::value;
                         if (batchnorm2d_is_one_launch(shape)) {
                           const ChannelTiles tiles =
                               channel_tiles(shape.channels / n, n == 1 ? warp_size : backward_lanes_of_one_launch);
                           launch(batchnorm2d_backward_at_once_kernel<T, n>, tiles.grid(1), tiles.block(), stream,
                                  typed, tiles.num_tiles);
                           return;
                         }
                         const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
                         const RowParts parts = row_parts(shape.rows, shape.channels);
                         SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
                         SumPair* const settled = pairs + parts.num_parts * shape.channels;
                         launch(batchnorm2d_gradient_sums_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(),
                                stream, typed, pairs, parts, tiles.num_tiles);
                         launch(batchnorm2d_settle_gradients_kernel<T>, combining_grid(shape.channels),
                                combining_block(), stream, typed, pairs, parts.num_parts, settled);
                         const std::int64_t rows_per_block = tiles.rows_per_block(shape.rows);
                         launch(batchnorm2d_combine_kernel<T, n>, tiles.grid(num_blocks(shape.rows, rows_per_block)),
                                tiles.block(), stream, typed.after_sums(), settled, rows_per_block, tiles.num_tiles);
                       });
  });
}

void batchnorm2d_gradient_sums(DType type, const BatchNorm2dGradientSums& operands, const BatchNorm2dShape& shape,
                               Stream stream) {
  if (shape.rows == 0 || shape.channels == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const GradientOperands<T> typed = {.dy = static_cast<const T*>(operands.dy),
                                       .x = static_cast<const T*>(operands.x),
                                       .y = nullptr,
                                       .dx = nullptr,
                                       .daddend = nullptr,
                                       .mean = operands.mean,
                                       .rstd = operands.rstd,
                                       .weight = operands.weight,
                                       .bias = operands.bias,
                                       .dweight = operands.dweight,
                                       .dbias = operands.dbias,
                                       .rows = shape.rows,
                                       .channels = shape.channels,
                                       .relu = operands.relu,
                                       .ceiling = operands.ceiling};
    SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
    const RowParts parts = row_parts(shape.rows, shape.channels);
    with_pack_width<T>(shape.channels, {typed.dy, typed.x, typed.mean, typed.rstd, typed.weight, typed.bias, pairs},
                       [&](auto width) {
                         constexpr int n = decltype(width)::value;
                         const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
                         launch(batchnorm2d_gradient_sums_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(),
                                stream, typed, pairs, parts, tiles.num_tiles);
                       });
    launch(batchnorm2d_add_gradient_sums_kernel<T>, combining_grid(shape.channels), combining_block(), stream, typed,
           pairs, parts.num_parts, operands.sums);
  });
}

void batchnorm2d_normalize_backward(DType type, const BatchNorm2dNormalizeBackward& operands,
                                    const BatchNorm2dShape& shape, Stream stream) {
  if (shape.rows == 0 || shape.channels == 0) return;
  SumPair* const settled = static_cast<SumPair*>(operands.workspace);
  launch(batchnorm2d_settle_sums_kernel, grid_of(num_blocks(shape.channels, tile_threads)), Dim3{tile_threads}, stream,
         operands.sums, operands.rstd, settled, shape.channels);
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const GradientOperands<T> typed = {.dy = static_cast<const T*>(operands.dy),
                                       .x = static_cast<const T*>(operands.x),
                                       .y = nullptr,
                                       .dx = static_cast<T*>(operands.dx),
                                       .daddend = nullptr,
                                       .mean = operands.mean,
                                       .rstd = operands.rstd,
                                       .weight = operands.weight,
                                       .bias = operands.bias,
                                       .dweight = nullptr,
                                       .dbias = nullptr,
                                       .rows = shape.rows,
                                       .channels = shape.channels,
                                       .relu = operands.relu,
                                       .ceiling = operands.ceiling};
    with_pack_width<T>(shape.channels,
                       {typed.dy, typed.x, typed.dx, typed.mean, typed.rstd, typed.weight, typed.bias, settled},
                       [&](auto width) {
                         constexpr int n = decltype(width)::value;
                         const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
                         const std::int64_t rows_per_block = tiles.rows_per_block(shape.rows);
                         launch(batchnorm2d_combine_kernel<T, n>, tiles.grid(num_blocks(shape.rows, rows_per_block)),
                                tiles.block(), stream, typed, settled, rows_per_block, tiles.num_tiles);
                       });
  });
}

}  // namespace trainer::cuda
