#include "cuda/kernels/groupnorm.h"

#include "cuda/kernels/column_moments.cuh"
#include "cuda/kernels/group_rows.cuh"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/reduce.cuh"

namespace trainer::cuda {

namespace {

/// What a pass over the elements reads and writes; y may be x, so nothing here promises otherwise.
template <typename T>
struct GroupedRows {
  const T* x;
  T* y;
  bool relu;
};

/// For n channels from `channel` on, of rows begin + threadIdx.y, then every blockDim.y-th, below end.
template <typename T, int n>
__device__ __forceinline__ void normalize_grouped_rows(const GroupedRows<T>& of, const Normalization<n>& by,
                                                       std::int64_t channel, std::int64_t channels, std::int64_t begin,
                                                       std::int64_t end) {
  visit_rows<4>(begin, end, channel, channels, [&](std::int64_t at, std::int64_t step, auto rows) {
    constexpr int num_rows = decltype(rows)::value;
    Pack<T, n> x[num_rows];
    for (int u = 0; u < num_rows; ++u) x[u] = load_pack<n>(of.x + at + u * step);
    for (int u = 0; u < num_rows; ++u) {
      Pack<float, n> y;
      for (int i = 0; i < n; ++i) {
        const float value = by(to_float(x[u].values[i]), i);
        y.values[i] = of.relu && value < 0 ? 0.0f : value;
      }
      store_floats(of.y + at + u * step, y);
    }
  });
}

/// Writes a group's statistics from the sums over its channels.
__device__ __forceinline__ void settle_group(float* mean, float* rstd, std::int64_t group, double centre,
                                             double squares, double count, double eps) {
  mean[group] = static_cast<float>(centre);
  rstd[group] = static_cast<float>(1 / sqrt(squares / count + eps));
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    groupnorm_forward_at_once_kernel(GroupedRows<T> of, GroupLines lines, float* mean, float* rstd, double eps,
                                     GroupNormShape shape, GroupBlocks blocks) {
  wait_for_earlier_kernels();
  // Of each channel the mean of x − shift, with shift = the sample's first row, and the squared deviations.
  TRAINER_SHARED(SumPair, moments_of_channel, groupnorm_most_channels);
  const GroupBlockPosition block = group_block_position(blocks, shape.channels);
  const std::int64_t sample = block.part;
  const T* const x = of.x + sample * shape.rows * shape.channels;
  for_packs_of_block<n>(block, [&](const TilePosition& at, std::int64_t place) {
    Moments<n> moments = moments_of_rows<n>(x, at, shape.channels, 0, shape.rows);
    merge_over_rows(moments);
    if (threadIdx.y != 0 || !at.active) return;
    for (int i = 0; i < n; ++i) moments_of_channel[place + i] = {moments.mean[i], moments.squares[i]};
  });
  __syncthreads();
  const std::int64_t width = shape.group_channels();
  const double rows = static_cast<double>(shape.rows);
  for_groups_of_block(block, width, [&](std::int64_t first, unsigned lane) {
    double sum = 0;
    for (std::int64_t c = first + lane; c < first + width; c += warp_size) {
      sum += static_cast<double>(to_float(x[block.first + c])) + static_cast<double>(moments_of_channel[c].values[0]);
    }
    const double centre = warp_sum(sum) / static_cast<double>(width);
    double squares = 0;
    for (std::int64_t c = first + lane; c < first + width; c += warp_size) {
      const double apart = static_cast<double>(to_float(x[block.first + c])) +
                           static_cast<double>(moments_of_channel[c].values[0]) - centre;
      squares += static_cast<double>(moments_of_channel[c].values[1]) + rows * apart * apart;
    }
    squares = warp_sum(squares);
    if (lane != 0) return;
    settle_group(mean, rstd, sample * shape.groups + (block.first + first) / width, centre, squares,
                 rows * static_cast<double>(width), eps);
  });
  __syncthreads();  // also orders the reads of x before the writes of y
  for_packs_of_block<n>(block, [&](const TilePosition& at, std::int64_t) {
    if (!at.active) return;
    const std::int64_t first_row = sample * shape.rows;
    normalize_grouped_rows(of, lines.of<n>(shape, sample, at.channel), at.channel, shape.channels, first_row,
                           first_row + shape.rows);
  });
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, group_blocks_at_once)
    groupnorm_moments_kernel(const T* x, SumPair* pairs, RowParts parts, GroupNormShape shape, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, shape.channels);
  const auto num_parts = static_cast<unsigned>(parts.num_parts);
  const std::int64_t sample = static_cast<unsigned>(at.row_group) / num_parts;
  const std::int64_t begin = static_cast<unsigned>(at.row_group) % num_parts * parts.rows_per_part;
  const std::int64_t end = begin + parts.rows_per_part < shape.rows ? begin + parts.rows_per_part : shape.rows;
  Moments<n> moments = moments_of_rows<n>(x + sample * shape.rows * shape.channels, at, shape.channels, begin, end);
  merge_over_rows(moments);
  if (threadIdx.y != 0 || !at.active) return;
  store_pairs(pairs + at.row_group * shape.channels + at.channel, moments.mean, moments.squares);
}

/// The sum over the threads that share a group.
template <int group_threads>
__device__ __forceinline__ double group_sum(double value) {
  if constexpr (group_threads == warp_size) {
    return warp_sum(value);
  } else {
    return block_sum<group_threads>(value);
  }
}

/// Threads along x share a group of a sample, those along y have groups of their own.
template <typename T, int group_threads>
__global__ void __launch_bounds__(tile_threads)
    groupnorm_statistics_kernel(const T* x, const SumPair* pairs, RowParts parts, float* mean, float* rstd, double eps,
                                GroupNormShape shape) {
  wait_for_earlier_kernels();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (index >= shape.samples * shape.groups) return;  // all threads of the group together
  const std::int64_t sample = index / shape.groups, width = shape.group_channels();
  const std::int64_t first = (index - sample * shape.groups) * width;
  const T* const shift = x + sample * shape.rows * shape.channels + first;
  const SumPair* const from = pairs + sample * parts.num_parts * shape.channels + first;
  const auto channels = static_cast<unsigned>(width);
  const unsigned num_pairs = static_cast<unsigned>(parts.num_parts) * channels;
  const auto rows_of = [&](std::int64_t part) {
    const std::int64_t rest = shape.rows - part * parts.rows_per_part;
    return static_cast<double>(rest < parts.rows_per_part ? rest : parts.rows_per_part);
  };
  const double count = static_cast<double>(shape.rows) * static_cast<double>(width);
  double sum = 0;
  for (unsigned i = threadIdx.x; i < num_pairs; i += group_threads) {
    const unsigned part = i / channels, channel = i % channels;
    sum += rows_of(part) * (static_cast<double>(to_float(shift[channel])) +
                            static_cast<double>(from[part * shape.channels + channel].values[0]));
  }
  const double centre = group_sum<group_threads>(sum) / count;
  double squares = 0;
  for (unsigned i = threadIdx.x; i < num_pairs; i += group_threads) {
    const unsigned part = i / channels, channel = i % channels;
    const SumPair pair = from[part * shape.channels + channel];
    const double apart = static_cast<double>(to_float(shift[channel])) + static_cast<double>(pair.values[0]) - centre;
    squares += static_cast<double>(pair.values[1]) + rows_of(part) * apart * apart;
  }
  squares = group_sum<group_threads>(squares);
  if (threadIdx.x == 0) settle_group(mean, rstd, index, centre, squares, count, eps);
}

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads, tile_blocks_at_once)
    groupnorm_normalize_kernel(GroupedRows<T> of, GroupLines lines, GroupNormShape shape, PassOverSamples pass) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(pass.num_tiles, shape.channels);
  if (!at.active) return;
  for_samples_of_block<n>(shape, pass, at, [&](std::int64_t sample, std::int64_t begin, std::int64_t end) {
    normalize_grouped_rows(of, lines.of<n>(shape, sample, at.channel), at.channel, shape.channels, begin, end);
  });
}

template <typename T, int n>
void launch_normalize(const GroupNormNormalize& operands, const GroupNormShape& shape, Stream stream) {
  const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
  const std::int64_t rows = shape.samples * shape.rows;
  const PassOverSamples pass = {tiles.rows_per_block(rows), tiles.num_tiles};
  launch(groupnorm_normalize_kernel<T, n>, tiles.grid(num_blocks(rows, pass.rows_per_block)), tiles.block(), stream,
         GroupedRows<T>{static_cast<const T*>(operands.x), static_cast<T*>(operands.y), operands.relu},
         GroupLines{operands.mean, operands.rstd, operands.weight, operands.bias}, shape, pass);
}

template <typename T, int group_threads>
void launch_statistics(const T* x, const SumPair* pairs, const RowParts& parts, const GroupNormForward& operands,
                       const GroupNormShape& shape, Stream stream) {
  constexpr unsigned groups_of_block = tile_threads / group_threads;
  launch(groupnorm_statistics_kernel<T, group_threads>,
         grid_of(num_blocks(shape.samples * shape.groups, groups_of_block)), Dim3{group_threads, groups_of_block},
         stream, x, pairs, parts, operands.mean, operands.rstd, operands.eps, shape);
}

bool is_empty(const GroupNormShape& shape) { return shape.samples == 0 || shape.rows == 0 || shape.channels == 0; }

}  // namespace

void groupnorm_forward(DType type, const GroupNormForward& operands, const GroupNormShape& shape, Stream stream) {
  if (is_empty(shape)) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const T* const x = static_cast<const T*>(operands.x);
    const auto run = [&](auto width) {
      constexpr int n = decltype(width)::value;
      if (groupnorm_is_one_launch(shape)) {
        const GroupBlocks blocks = group_blocks(shape, n);
        launch(groupnorm_forward_at_once_kernel<T, n>, blocks.grid(shape.samples), blocks.block(), stream,
               GroupedRows<T>{x, static_cast<T*>(operands.y), operands.relu},
               GroupLines{operands.mean, operands.rstd, operands.weight, operands.bias}, operands.mean, operands.rstd,
               operands.eps, shape, blocks);
        return;
      }
      const ChannelTiles tiles = channel_tiles(shape.channels / n, warp_size);
      const RowParts parts = groupnorm_row_parts(shape);
      SumPair* const pairs = static_cast<SumPair*>(operands.workspace);
      launch(groupnorm_moments_kernel<T, n>, tiles.grid(shape.samples * parts.num_parts), tiles.block(), stream, x,
             pairs, parts, shape, tiles.num_tiles);
      // A warp where a group's pairs are few.
      constexpr std::int64_t pairs_of_warp = 512;
      if (parts.num_parts * shape.group_channels() <= pairs_of_warp) {
        launch_statistics<T, warp_size>(x, pairs, parts, operands, shape, stream);
      } else {
        launch_statistics<T, tile_threads>(x, pairs, parts, operands, shape, stream);
      }
      launch_normalize<T, n>({.x = operands.x,
                              .y = operands.y,
                              .mean = operands.mean,
                              .rstd = operands.rstd,
                              .weight = operands.weight,
                              .bias = operands.bias,
                              .relu = operands.relu},
                             shape, stream);
    };
    with_pack_width<T>(shape.channels, {operands.x, operands.y, operands.weight, operands.bias, operands.workspace},
                       run);
  });
}

void groupnorm_normalize(DType type, const GroupNormNormalize& operands, const GroupNormShape& shape, Stream stream) {
  if (is_empty(shape)) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {operands.x, operands.y, operands.weight, operands.bias},
                       [&](auto width) { launch_normalize<T, decltype(width)::value>(operands, shape, stream); });
  });
}

}  // namespace trainer::cuda
