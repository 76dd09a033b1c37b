#pragma once
// What kernels of group norm have in common: where a thread stands in (samples, rows, channels), and the line of its
// channels.

#include "cuda/kernels/batchnorm2d_line.cuh"
#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/groupnorm.h"

namespace trainer::cuda {

/// Blocks that stand on an SM together at least: a thread has a mean and a slope for each of its channels, of which
/// no two need be of one group, so that it takes up to 128 registers.
inline constexpr int group_blocks_at_once = 2;

/// Statistics and scales as every kernel reads them.
struct GroupLines {
  const float* mean;    ///< (samples, groups)
  const float* rstd;    ///< (samples, groups)
  const float* weight;  ///< (channels); null: 1
  const float* bias;    ///< (channels); null: 0

  /// Of n channels of a sample.
  template <int n>
  __device__ __forceinline__ Normalization<n> of(const GroupNormShape& shape, std::int64_t sample,
                                                 std::int64_t channel) const {
    Normalization<n> result{
        .mean = {}, .slope = load_floats_or<n>(weight, channel, 1.0f), .bias = load_floats_or<n>(bias, channel, 0.0f)};
    const auto width = static_cast<unsigned>(shape.channels / shape.groups);
    const std::int64_t first = sample * shape.groups;
    for (int i = 0; i < n; ++i) {
      const unsigned group = (static_cast<unsigned>(channel) + i) / width;
      result.mean.values[i] = mean[first + group];
      result.slope.values[i] *= rstd[first + group];
    }
    return result;
  }
};

/// A pass over the elements: blocks count through the tiles of channels, then through groups of rows of all samples.
struct PassOverSamples {
  std::int64_t rows_per_block = 1, num_tiles = 1;
};

/// Calls function(line, begin, end) with rows of the whole batch, each time of one sample, that this thread is to visit
/// with visit_rows. Where a sample has fewer rows than the block has side by side, the threads along y have samples of
/// their own.
template <int n, typename Function>
__device__ __forceinline__ void for_samples_of_block(const GroupNormShape& shape, const PassOverSamples& pass,
                                                     const TilePosition& at, Function&& function) {
  const auto [begin, end] = at.rows_of_group(pass.rows_per_block, shape.samples * shape.rows);
  if (shape.rows < blockDim.y) {
    for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      // visit_rows adds threadIdx.y.
      const std::int64_t first = row - static_cast<std::int64_t>(threadIdx.y);
      function(row / shape.rows, first, row + 1);
    }
    return;
  }
  for (std::int64_t first = begin; first < end;) {
    const std::int64_t sample = first / shape.rows;
    const std::int64_t next = (sample + 1) * shape.rows;
    const std::int64_t last = next < end ? next : end;
    function(sample, first, last);
    first = last;
  }
}

/// The blocks of one launch: each has some samples and `channels` channels, whole groups.
struct GroupBlocks {
  std::int64_t channels = 1, num_tiles = 1;
  int lanes = 1;  ///< threads along x; those along y are tile_threads / lanes

  Dim3 block() const { return {static_cast<unsigned>(lanes), static_cast<unsigned>(tile_threads / lanes)}; }
  Dim3 grid(std::int64_t num_parts) const { return grid_of(num_tiles * num_parts); }
};

inline GroupBlocks group_blocks(const GroupNormShape& shape, int n) {
  const std::int64_t channels = groupnorm_block_channels(shape, n);
  const std::int64_t packs = num_blocks(channels, n);
  int lanes = 1;
  while (lanes < tile_threads && lanes < packs) lanes *= 2;
  return {channels, num_blocks(shape.channels, channels), lanes};
}

/// Where a block of such a launch stands.
struct GroupBlockPosition {
  std::int64_t part;                 ///< of the samples
  std::int64_t first, num_channels;  ///< its channels
};

__device__ __forceinline__ GroupBlockPosition group_block_position(const GroupBlocks& blocks, std::int64_t channels) {
  const auto tiles = static_cast<unsigned>(blocks.num_tiles);
  const std::int64_t first = blockIdx.x % tiles * blocks.channels;
  const std::int64_t rest = channels - first;
  return {blockIdx.x / tiles, first, rest < blocks.channels ? rest : blocks.channels};
}

/// Calls function(position, place) for each of the block's packs of channels, of which this thread has every lane-th;
/// all threads of the block call as often. `place` is the pack's first channel among those of the block.
template <int n, typename Function>
__device__ __forceinline__ void for_packs_of_block(const GroupBlockPosition& block, Function&& function) {
  for (std::int64_t first = 0; first < block.num_channels; first += blockDim.x * n) {
    const std::int64_t place = first + threadIdx.x * n;
    function(TilePosition{block.first + place, 0, place < block.num_channels}, place);
  }
}

/// Calls function(first, width, lane) for each of the block's groups, by the threads of one warp: `first` is its first
/// channel among those of the block.
template <typename Function>
__device__ __forceinline__ void for_groups_of_block(const GroupBlockPosition& block, std::int64_t width,
                                                    Function&& function) {
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const auto groups = static_cast<unsigned>(block.num_channels / width);
  for (unsigned group = thread / warp_size; group < groups; group += tile_threads / warp_size) {
    function(static_cast<std::int64_t>(group) * width, thread % warp_size);
  }
}

}  // namespace trainer::cuda
