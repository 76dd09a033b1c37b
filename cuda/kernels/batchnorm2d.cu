#include "cuda/kernels/batchnorm2d.h"

#include <limits>

#include "cuda/kernels/batchnorm2d_line.cuh"
#include "cuda/kernels/column_moments.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

/// One launch has no more blocks than tiles, so these are narrow: 128 bytes of a row.
constexpr int lanes_of_one_launch = 8;

struct StatisticsOperands {
  float* running_mean;
  float* running_var;
  float* mean;
  float* rstd;
  double eps, momentum;
};

/// Settles one channel from its mean and variance over `count` rows.
__device__ __forceinline__ void settle_moments(const StatisticsOperands& out, std::int64_t channel, double count,
                                               double mean, double variance) {
  const double unbiased = count > 1 ? variance * (count / (count - 1)) : variance;
  out.mean[channel] = static_cast<float>(mean);
  out.rstd[channel] = static_cast<float>(1 / sqrt(variance + out.eps));
  if (out.momentum == 0) return;  // also of a batch that is not finite
  const double old_mean = static_cast<double>(out.running_mean[channel]);
  const double old_var = static_cast<double>(out.running_var[channel]);
  out.running_mean[channel] = static_cast<float>((1 - out.momentum) * old_mean + out.momentum * mean);
  out.running_var[channel] = static_cast<float>((1 - out.momentum) * old_var + out.momentum * unbiased);
}

/// The same where the mean is that of x − shift.
__device__ __forceinline__ void settle_channel(const StatisticsOperands& out, std::int64_t channel, std::int64_t rows,
                                               float shift, double mean_of_shifted, double variance) {
  settle_moments(out, channel, static_cast<double>(rows), static_cast<double>(shift) + mean_of_shifted, variance);
}

/// Σx and Σx² of each channel, null where they are not known; and 1 / rows.
struct GivenSums {
  const float* sums;
  const float* square_sums;
  float per_row;
};

/// Whether a channel's moments follow from its sums: batchnorm2d_forward. In f32 without a sum that a compiler may
/// contract in one kernel and not in another, which must answer alike.
__device__ __forceinline__ bool serve(float sum, float square_sum, float per_row) {
  constexpr float most_squared_means = 256;
  const float mean = sum * per_row;
  const float variance = fmaf(-mean, mean, square_sum * per_row);
  return variance > 0 && variance <= std::numeric_limits<float>::max() && mean * mean <= most_squared_means * variance;
}

/// Whether all sums of the block's channels serve: the same for all of its threads, as the lanes of a tile stand side
/// by side in each warp.
template <int n>
__device__ __forceinline__ bool all_serve(const GivenSums& given, const TilePosition& at) {
  if (given.sums == nullptr) return false;
  int num_others = 0;
  if (at.active) {
    const Pack<float, n> sums = load_floats<n>(given.sums + at.channel);
    const Pack<float, n> square_sums = load_floats<n>(given.square_sums + at.channel);
    for (int i = 0; i < n; ++i) num_others += serve(sums.values[i], square_sums.values[i], given.per_row) ? 0 : 1;
  }
  for (int mask = warp_size / 2; mask > 0; mask /= 2) num_others += shuffle_xor(num_others, mask);
  return num_others == 0;
}

/// What a pass over the elements reads and writes; y may be x or the addend, so nothing here promises otherwise.
template <typename T>
struct NormalizedRows {
  const T* x;
  const T* addend;  ///< null: none
  T* y;
  std::int64_t y_channels;  ///< from row to row
  bool relu;
  float ceiling;
};

/// For n channels from `channel` on, of rows begin + threadIdx.y, then every blockDim.y-th, below end.
template <typename T, int n>
__device__ __forceinline__ void normalize_rows(const NormalizedRows<T>& of, const Normalization<n>& by,
                                               std::int64_t channel, std::int64_t channels, std::int64_t begin,
                                               std::int64_t end) {
  const auto finished = [&](float value) {
    if (!of.relu) return value;
    const float above = value < 0 ? 0.0f : value;
    return above > of.ceiling ? of.ceiling : above;
  };
  if (of.y_channels != channels) {
    for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const Pack<T, n> x = load_pack<n>(of.x + row * channels + channel);
      Pack<float, n> y;
      for (int i = 0; i < n; ++i) y.values[i] = by(to_float(x.values[i]), i);
      if (of.addend != nullptr) {
        const Pack<T, n> addend = load_pack<n>(of.addend + row * channels + channel);
        for (int i = 0; i < n; ++i) y.values[i] += to_float(addend.values[i]);
      }
      for (int i = 0; i < n; ++i) y.values[i] = finished(y.values[i]);
      store_floats(of.y + row * of.y_channels + channel, y);
    }
    return;
  }
  if (of.addend == nullptr) {
    visit_rows<4>(begin, end, channel, channels, [&](std::int64_t at, std::int64_t step, auto rows) {
      constexpr int num_rows = decltype(rows)::value;
      Pack<T, n> x[num_rows];
      for (int u = 0; u < num_rows; ++u) x[u] = load_pack<n>(of.x + at + u * step);
      for (int u = 0; u < num_rows; ++u) {
        Pack<float, n> y;
        for (int i = 0; i < n; ++i) y.values[i] = finished(by(to_float(x[u].values[i]), i));
        store_floats(of.y + at + u * step, y);
      }
    });
    return;
  }
  visit_rows<2>(begin, end, channel, channels, [&](std::int64_t at, std::int64_t step, auto rows) {
    constexpr int num_rows = decltype(rows)::value;
    Pack<T, n> x[num_rows], addend[num_rows];
    for (int u = 0; u < num_rows; ++u) {
      x[u] = load_pack<n>(of.x + at + u * step);
      addend[u] = load_pack<n>(of.addend + at + u * step);
    }
    for (int u = 0; u < num_rows; ++u) {
      Pack<float, n> y;
      for (int i = 0; i < n; ++i) {
        y.values[i] = finished(by(to_float(x[u].values[i]), i) + to_float(addend[u].values[i]));
      }
      store_floats(of.y + at + u * step, y);
    }
  });
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_forward_at_once_kernel(NormalizedRows<T> of, StatisticsOperands out, const float* weight,
                                       const float* bias, std::int64_t rows, std::int64_t channels,
                                       std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(SumPair, sums, warp_size * n);
  const TilePosition at = tile_position<n>(num_tiles, channels);
  Moments<n> moments = moments_of_rows<n>(of.x, at, channels, 0, rows);
  merge_over_rows(moments);
  if (threadIdx.y == 0) {
    for (int i = 0; i < n; ++i) sums[threadIdx.x * n + i] = {moments.mean[i], moments.squares[i]};
  }
  __syncthreads();
  // A thread for each channel of the tile.
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const std::int64_t channel = at.channel - threadIdx.x * n + thread;
  if (thread < blockDim.x * n && channel < channels) {
    settle_channel(out, channel, rows, to_float(of.x[channel]), static_cast<double>(sums[thread].values[0]),
                   static_cast<double>(sums[thread].values[1]) / static_cast<double>(rows));
  }
  __syncthreads();  // also orders the reads of x before the writes of y
  if (!at.active) return;
  const auto by = normalization_of<n>(out.mean, out.rstd, weight, bias, at.channel);
  normalize_rows(of, by, at.channel, channels, 0, rows);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, tile_blocks_at_once)
    batchnorm2d_moments_kernel(const T* x, GivenSums given, SumPair* pairs, RowParts parts, std::int64_t rows,
                               std::int64_t channels, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (all_serve<n>(given, at)) return;
  const auto [begin, end] = at.rows_of_group(parts.rows_per_part, rows);
  Moments<n> moments = moments_of_rows<n>(x, at, channels, begin, end);
  merge_over_rows(moments);
  if (threadIdx.y != 0 || !at.active) return;
  store_pairs(pairs + at.row_group * channels + at.channel, moments.mean, moments.squares);
}

/// Of x − shift and of its square over `rows` rows, of the moments of their parts; for threads with threadIdx.y = 0.
/// With count · mean and squares + count · mean², moments add up. In f64 their difference keeps its digits, the more so
/// as the means are those of x − shift.
__device__ __forceinline__ DoubleSums sums_of_moments(const SumPair* pairs, const RowParts& parts, std::int64_t rows,
                                                      std::int64_t channel, std::int64_t channels) {
  DoubleSums sums{0, 0};
  if (channel < channels && rows > 0) {
    for (std::int64_t part = threadIdx.y; part < parts.num_parts; part += combining_threads) {
      const std::int64_t rest = rows - part * parts.rows_per_part;
      const double count = static_cast<double>(rest < parts.rows_per_part ? rest : parts.rows_per_part);
      const SumPair pair = pairs[part * channels + channel];
      const double mean = static_cast<double>(pair.values[0]);
      sums.first += count * mean;
      sums.second += static_cast<double>(pair.values[1]) + count * mean * mean;
    }
  }
  combine_over_parts(sums);
  return sums;
}

template <typename T>
__global__ void __launch_bounds__(combined_channels* combining_threads)
    batchnorm2d_statistics_kernel(const T* x, GivenSums given, const SumPair* pairs, RowParts parts,
                                  StatisticsOperands out, std::int64_t rows, std::int64_t channels) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const bool sums_serve = given.sums != nullptr && channel < channels &&
                          serve(given.sums[channel], given.square_sums[channel], given.per_row);
  DoubleSums sums = sums_of_moments(pairs, parts, sums_serve ? 0 : rows, channel, channels);
  if (threadIdx.y != 0 || channel >= channels) return;
  // Those of a convolution are of x itself.
  float shift = 0;
  if (sums_serve) {
    sums = {static_cast<double>(given.sums[channel]), static_cast<double>(given.square_sums[channel])};
  } else {
    shift = to_float(x[channel]);
  }
  const double mean = sums.first / static_cast<double>(rows);
  const double variance = sums.second / static_cast<double>(rows) - mean * mean;
  settle_channel(out, channel, rows, shift, mean, variance < 0 ? 0 : variance);
}

template <typename T>
__global__ void __launch_bounds__(combined_channels* combining_threads)
    batchnorm2d_add_moments_kernel(const T* x, const SumPair* pairs, RowParts parts, double* sums, std::int64_t rows,
                                   std::int64_t channels) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  const DoubleSums of_shifted = sums_of_moments(pairs, parts, rows, channel, channels);
  if (threadIdx.y != 0 || channel >= channels) return;
  const double count = static_cast<double>(rows);
  const double mean_of_shifted = of_shifted.first / count;
  const double squares = of_shifted.second - of_shifted.first * mean_of_shifted;
  const double mean = static_cast<double>(to_float(x[channel])) + mean_of_shifted;
  sums[channel] = count * mean;
  sums[channels + channel] = (squares < 0 ? 0 : squares) + count * mean * mean;
  if (channel == 0) sums[2 * channels] = count;
}

__global__ void __launch_bounds__(tile_threads)
    batchnorm2d_settle_statistics_kernel(const double* sums, StatisticsOperands out, std::int64_t channels) {
  wait_for_earlier_kernels();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * tile_threads + threadIdx.x;
  if (channel >= channels) return;
  const double count = sums[2 * channels];
  const double mean = sums[channel] / count;
  const double variance = sums[channels + channel] / count - mean * mean;
  settle_moments(out, channel, count, mean, variance < 0 ? 0 : variance);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, tile_blocks_at_once)
    batchnorm2d_normalize_kernel(NormalizedRows<T> of, const float* mean, const float* rstd, const float* weight,
                                 const float* bias, std::int64_t rows_per_block, std::int64_t rows,
                                 std::int64_t channels, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  const auto by = normalization_of<n>(mean, rstd, weight, bias, at.channel);
  normalize_rows(of, by, at.channel, channels, begin, end);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, tile_blocks_at_once)
    batchnorm2d_inference_kernel(NormalizedRows<T> of, const float* running_mean, const float* running_var,
                                 const float* weight, const float* bias, float eps, std::int64_t rows_per_block,
                                 std::int64_t rows, std::int64_t channels, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  Normalization<n> by{.mean = load_floats_or<n>(running_mean, at.channel, 0.0f),
                      .slope = load_floats<n>(running_var + at.channel),
                      .bias = load_floats_or<n>(bias, at.channel, 0.0f)};
  const Pack<float, n> weights = load_floats_or<n>(weight, at.channel, 1.0f);
  for (int i = 0; i < n; ++i) by.slope.values[i] = weights.values[i] / sqrtf(by.slope.values[i] + eps);
  normalize_rows(of, by, at.channel, channels, begin, end);
}

/// From row to row of y.
template <typename Operands>
std::int64_t y_channels_of(const Operands& operands, std::int64_t channels) {
  return operands.y_channels == 0 ? channels : operands.y_channels;
}

template <typename T, typename Operands>
NormalizedRows<T> rows_of(const Operands& operands, std::int64_t channels) {
  return {static_cast<const T*>(operands.x),
          static_cast<const T*>(operands.addend),
          static_cast<T*>(operands.y),
          y_channels_of(operands, channels),
          operands.relu,
          operands.ceiling};
}

/// Calls function(std::integral_constant<int, n>{}) with the width in which everything can be read and written.
template <typename T, typename Operands, typename Function>
void with_operand_width(const Operands& operands, const float* mean, const float* scale, std::int64_t channels,
                        Function&& function) {
  // Packs fit where they fit the rows of x and those of y.
  with_pack_width<T>(channels | y_channels_of(operands, channels),
                     {operands.x, operands.y, operands.addend, operands.weight, operands.bias, mean, scale}, function);
}

template <typename T, int n>
void launch_normalize(const BatchNorm2dNormalize& operands, const BatchNorm2dShape& shape, Stream stream) {
  const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
  const std::int64_t rows_per_block = tiles.rows_per_block(shape.rows);
  launch(batchnorm2d_normalize_kernel<T, n>, tiles.grid(num_blocks(shape.rows, rows_per_block)), tiles.block(), stream,
         rows_of<T>(operands, shape.channels), operands.mean, operands.rstd, operands.weight, operands.bias,
         rows_per_block, shape.rows, shape.channels, tiles.num_tiles);
}

}  // namespace

void batchnorm2d_forward(DType type, const BatchNorm2dForward& operands, const BatchNorm2dShape& shape, Stream stream) {
  const StatisticsOperands out = {operands.running_mean, operands.running_var, operands.mean,
                                  operands.rstd,         operands.eps,         operands.momentum};
  const GivenSums given = {operands.sums, operands.square_sums, 1.0f / static_cast<float>(shape.rows)};
  if (shape.rows == 0 || shape.channels == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const T* const x = static_cast<const T*>(operands.x);
    const auto run = [&](auto width) {
      constexpr int n = decltype(width)::value;
      if (batchnorm2d_is_one_launch(shape)) {
        const ChannelTiles tiles = channel_tiles(shape.channels / n, n == 1 ? warp_size : lanes_of_one_launch);
        launch(batchnorm2d_forward_at_once_kernel<T, n>, tiles.grid(1), tiles.block(), stream,
               rows_of<T>(operands, shape.channels), out, operands.weight, operands.bias, shape.rows, shape.channels,
               tiles.num_tiles);
        return;
      }
      const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
      const RowParts parts = row_parts(shape.rows, shape.channels);
      SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
      launch(batchnorm2d_moments_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(), stream, x, given, pairs,
             parts, shape.rows, shape.channels, tiles.num_tiles);
      launch(batchnorm2d_statistics_kernel<T>, combining_grid(shape.channels), combining_block(), stream, x, given,
             pairs, parts, out, shape.rows, shape.channels);
      launch_normalize<T, n>({.x = operands.x,
                              .y = operands.y,
                              .y_channels = operands.y_channels,
                              .addend = operands.addend,
                              .mean = operands.mean,
                              .rstd = operands.rstd,
                              .weight = operands.weight,
                              .bias = operands.bias,
                              .relu = operands.relu,
                              .ceiling = operands.ceiling},
                             shape, stream);
    };
    with_pack_width<T>(shape.channels | y_channels_of(operands, shape.channels),
                       {operands.x, operands.y, operands.addend, operands.weight, operands.bias, operands.sums,
                        operands.square_sums, operands.mean, operands.rstd, operands.workspace},
                       run);
  });
}

void batchnorm2d_sums(DType type, const BatchNorm2dSums& operands, const BatchNorm2dShape& shape, Stream stream) {
  if (shape.rows == 0 || shape.channels == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const T* const x = static_cast<const T*>(operands.x);
    SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
    const RowParts parts = row_parts(shape.rows, shape.channels);
    with_pack_width<T>(shape.channels, {x, pairs}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
      launch(batchnorm2d_moments_kernel<T, n>, tiles.grid(parts.num_parts), tiles.block(), stream, x, GivenSums{},
             pairs, parts, shape.rows, shape.channels, tiles.num_tiles);
    });
    launch(batchnorm2d_add_moments_kernel<T>, combining_grid(shape.channels), combining_block(), stream, x, pairs,
           parts, operands.sums, shape.rows, shape.channels);
  });
}

void batchnorm2d_statistics(const BatchNorm2dStatistics& operands, std::int64_t channels, Stream stream) {
  if (channels == 0) return;
  const StatisticsOperands out = {operands.running_mean, operands.running_var, operands.mean,
                                  operands.rstd,         operands.eps,         operands.momentum};
  launch(batchnorm2d_settle_statistics_kernel, grid_of(num_blocks(channels, tile_threads)), Dim3{tile_threads}, stream,
         operands.sums, out, channels);
}

void batchnorm2d_normalize(DType type, const BatchNorm2dNormalize& operands, const BatchNorm2dShape& shape,
                           Stream stream) {
  if (shape.rows == 0 || shape.channels == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_operand_width<T>(operands, operands.mean, operands.rstd, shape.channels,
                          [&](auto width) { launch_normalize<T, decltype(width)::value>(operands, shape, stream); });
  });
}

void batchnorm2d_inference(DType type, const BatchNorm2dInference& operands, const BatchNorm2dShape& shape,
                           Stream stream) {
  if (shape.rows == 0 || shape.channels == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_operand_width<T>(operands, operands.running_mean, operands.running_var, shape.channels, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
      const std::int64_t rows_per_block = tiles.rows_per_block(shape.rows);
      launch(batchnorm2d_inference_kernel<T, n>, tiles.grid(num_blocks(shape.rows, rows_per_block)), tiles.block(),
             stream, rows_of<T>(operands, shape.channels), operands.running_mean, operands.running_var, operands.weight,
             operands.bias, static_cast<float>(operands.eps), rows_per_block, shape.rows, shape.channels,
             tiles.num_tiles);
    });
  });
}

}  // namespace trainer::cuda
