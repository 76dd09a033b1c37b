#include "cuda/kernels/batchnorm2d.h"
#include "cuda/kernels/batchnorm2d_line.cuh"
#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

/// Rows whose loads are on their way together; two tensors of them must fit into the registers, beside the numbers of
/// the channels.
template <int n>
constexpr int backward_rows_at_once = n > 4 ? 2 : 4;
/// As in the forward pass.
constexpr int backward_lanes_of_one_launch = 8;

template <typename T>
struct GradientOperands {
  const T* dy;
  const T* x;
  const T* y;  ///< null: computed anew where it is asked for
  T* dx;       ///< may be dy
  T* daddend;  ///< may be dy; null: not wanted
  const float* mean;
  const float* rstd;
  const float* weight;
  const float* bias;
  float* dweight;
  float* dbias;
  std::int64_t rows, channels;
  bool relu;

  template <int n>
  __device__ __forceinline__ Normalization<n> normalization(std::int64_t channel) const {
    return normalization_of<n>(mean, rstd, weight, bias, channel);
  }
};

/// Some rows of dy where it counts, and of x.
template <int n>
struct Loaded {
  Pack<float, n> g[backward_rows_at_once<n>], x[backward_rows_at_once<n>];
};
template <int n, typename T>
__device__ __forceinline__ void load_rows(Loaded<n>& loaded, const GradientOperands<T>& operands,
                                          const Normalization<n>& y, std::int64_t channel, std::int64_t row,
                                          std::int64_t end) {
  for (int u = 0; u < backward_rows_at_once<n>; ++u) {
    const std::int64_t at = (row + u * blockDim.y) * operands.channels + channel;
    if (row + u * blockDim.y >= end) continue;
    loaded.g[u] = load_floats<n>(operands.dy + at);
    loaded.x[u] = load_floats<n>(operands.x + at);
  }
  if (!operands.relu) return;
  if (operands.y != nullptr) {
    for (int u = 0; u < backward_rows_at_once<n>; ++u) {
      if (row + u * blockDim.y >= end) continue;
      const Pack<float, n> result = load_floats<n>(operands.y + (row + u * blockDim.y) * operands.channels + channel);
      for (int i = 0; i < n; ++i) {
        if (!(result.values[i] > 0)) loaded.g[u].values[i] = 0.0f;
      }
    }
    return;
  }
  for (int u = 0; u < backward_rows_at_once<n>; ++u) {
    for (int i = 0; i < n; ++i) {
      if (!(y(loaded.x[u].values[i], i) > 0)) loaded.g[u].values[i] = 0.0f;
    }
  }
}

/// Σg and Σ g·(x − mean) of rows begin + threadIdx.y, then every blockDim.y-th, below end.
template <int n, typename T>
__device__ __forceinline__ ColumnSums<n> sums_of_rows(const GradientOperands<T>& operands, const TilePosition& position,
                                                      std::int64_t begin, std::int64_t end) {
  ColumnSums<n> total{};
  if (!position.active) return total;
  const auto y = operands.template normalization<n>(position.channel);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += backward_rows_at_once<n> * blockDim.y) {
    Loaded<n> loaded{};
    load_rows(loaded, operands, y, position.channel, row, end);
    ColumnSums<n> few{};
    for (int u = 0; u < backward_rows_at_once<n>; ++u) {
      if (row + u * blockDim.y >= end) continue;
      for (int i = 0; i < n; ++i) {
        few.first[i] += loaded.g[u].values[i];
        few.second[i] += loaded.g[u].values[i] * (loaded.x[u].values[i] - y.mean.values[i]);
      }
    }
    for (int i = 0; i < n; ++i) {
      total.first[i] += few.first[i];
      total.second[i] += few.second[i];
    }
  }
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

/// dx = slope · (g − constant − (x − mean) · factor) for n channels, whose constants and factors are `pairs`.
template <int n, typename T>
__device__ __forceinline__ void combine_rows(const GradientOperands<T>& operands, const SumPair* pairs,
                                             std::int64_t channel, std::int64_t begin, std::int64_t end) {
  const auto y = operands.template normalization<n>(channel);
  Pack<float, n> constant, factor;
  for (int i = 0; i < n; ++i) {
    constant.values[i] = pairs[i].values[0];
    factor.values[i] = pairs[i].values[1];
  }
  for (std::int64_t row = begin + threadIdx.y; row < end; row += backward_rows_at_once<n> * blockDim.y) {
    Loaded<n> loaded{};
    load_rows(loaded, operands, y, channel, row, end);
    for (int u = 0; u < backward_rows_at_once<n>; ++u) {
      const std::int64_t at = row + u * blockDim.y;
      if (at >= end) continue;
      if (operands.daddend != nullptr) store_floats(operands.daddend + at * operands.channels + channel, loaded.g[u]);
      for (int i = 0; i < n; ++i) {
        const float centred = loaded.x[u].values[i] - y.mean.values[i];
        const float rest = loaded.g[u].values[i] - constant.values[i] - centred * factor.values[i];
        loaded.g[u].values[i] = y.slope.values[i] * rest;
      }
      store_floats(operands.dx + at * operands.channels + channel, loaded.g[u]);
    }
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_backward_at_once_kernel(GradientOperands<T> operands, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(SumPair, pairs, warp_size * n);
  const TilePosition at = tile_position<n>(num_tiles, operands.channels);
  ColumnSums<n> sums = sums_of_rows<n>(operands, at, 0, operands.rows);
  add_over_rows(sums);
  if (threadIdx.y == 0 && at.active) {
    for (int i = 0; i < n; ++i) {
      pairs[threadIdx.x * n + i] = settle_channel(operands, at.channel + i, static_cast<double>(sums.first[i]),
                                                  static_cast<double>(sums.second[i]));
    }
  }
  __syncthreads();
  if (!at.active) return;
  combine_rows<n>(operands, pairs + threadIdx.x * n, at.channel, 0, operands.rows);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_gradient_sums_kernel(GradientOperands<T> operands, SumPair* pairs, RowParts parts,
                                     std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, operands.channels);
  const std::int64_t begin = at.row_group * parts.rows_per_part;
  const std::int64_t end = begin + parts.rows_per_part < operands.rows ? begin + parts.rows_per_part : operands.rows;
  ColumnSums<n> sums = sums_of_rows<n>(operands, at, begin, end);
  add_over_rows(sums);
  if (threadIdx.y != 0 || !at.active) return;
  for (int i = 0; i < n; ++i) {
    pairs[at.row_group * operands.channels + at.channel + i] = {sums.first[i], sums.second[i]};
  }
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

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_combine_kernel(GradientOperands<T> operands, const SumPair* settled, std::int64_t rows_per_block,
                               std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, operands.channels);
  if (!at.active) return;
  const std::int64_t begin = at.row_group * rows_per_block;
  const std::int64_t end = begin + rows_per_block < operands.rows ? begin + rows_per_block : operands.rows;
  combine_rows<n>(operands, settled + at.channel, at.channel, begin, end);
}

}  // namespace

void batchnorm2d_backward(DType type, const BatchNorm2dBackward& operands, const BatchNorm2dShape& shape,
                          Stream stream) {
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
                                       .relu = operands.relu};
    with_pack_width<T>(shape.channels, {typed.dy, typed.x, typed.y, typed.dx, typed.daddend}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      if (batchnorm2d_is_one_launch(shape)) {
        const ChannelTiles tiles = channel_tiles(shape.channels / n, n == 1 ? warp_size : backward_lanes_of_one_launch);
        launch(batchnorm2d_backward_at_once_kernel<T, n>, tiles.grid(1), tiles.block(), stream, typed, tiles.num_tiles);
        return;
      }
      const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
      const RowParts parts = row_parts(shape.rows, shape.channels);
      SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
      SumPair* const settled = pairs + parts.num_parts * shape.channels;
      launch(batchnorm2d_gradient_sums_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(), stream, typed, pairs,
             parts, tiles.num_tiles);
      launch(batchnorm2d_settle_gradients_kernel<T>, combining_grid(shape.channels), combining_block(), stream, typed,
             pairs, parts.num_parts, settled);
      const std::int64_t rows_per_block = tiles.rows_per_block(shape.rows);
      launch(batchnorm2d_combine_kernel<T, n>, tiles.grid(num_blocks(shape.rows, rows_per_block)), tiles.block(),
             stream, typed, settled, rows_per_block, tiles.num_tiles);
    });
  });
}

}  // namespace trainer::cuda
