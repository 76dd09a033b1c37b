#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/grid.h"

namespace trainer::cuda {

inline constexpr int tile_threads = 256;
/// Blocks that stand on an SM together at least: their threads have up to 80 registers.
inline constexpr int tile_blocks_at_once = 3;

/// How blocks cover (rows, channels): threads along x have one pack of n channels each, threads along y one row each.
/// The blocks of a launch count through the tiles of channels first, then through groups of rows.
struct ChannelTiles {
  int lanes = 1, rows = 1;  ///< of a block, powers of two; lanes · rows = tile_threads
  std::int64_t num_tiles = 1;

  Dim3 block() const { return {static_cast<unsigned>(lanes), static_cast<unsigned>(rows)}; }
  Dim3 grid(std::int64_t num_row_groups) const { return grid_of(num_tiles * num_row_groups); }
  /// For a pass over the elements: a thread takes more rows, up to 32, where that leaves about a thousand blocks, so
  /// that it seldom loads what it knows of its channels.
  std::int64_t rows_per_block(std::int64_t num_rows) const {
    return rows * std::clamp<std::int64_t>(num_rows * num_tiles / rows / 1024, 1, 32);
  }
};

/// Tiles of at most `most_lanes` packs, a power of two.
inline ChannelTiles channel_tiles(std::int64_t num_packs, int most_lanes) {
  int lanes = 1;
  while (lanes < most_lanes && lanes < num_packs) lanes *= 2;
  return {lanes, tile_threads / lanes, num_blocks(num_packs, lanes)};
}

/// Rows from `begin` on, below `end`.
struct RowRange {
  std::int64_t begin, end;
};

/// Where a thread of such a launch stands.
struct TilePosition {
  std::int64_t channel;    ///< the first of its pack
  std::int64_t row_group;  ///< of its block
  bool active;             ///< its channels exist

  __device__ __forceinline__ RowRange rows_of_group(std::int64_t rows_per_group, std::int64_t rows) const {
    const std::int64_t begin = row_group * rows_per_group;
    return {begin, begin + rows_per_group < rows ? begin + rows_per_group : rows};
  }
};

template <int n>
__device__ __forceinline__ TilePosition tile_position(std::int64_t num_tiles, std::int64_t channels) {
  const auto tiles = static_cast<unsigned>(num_tiles);
  const std::int64_t tile = blockIdx.x % tiles;
  const std::int64_t channel = (tile * blockDim.x + threadIdx.x) * n;
  return {channel, blockIdx.x / tiles, channel < channels};
}

/// A thread's rows: threadIdx.y after `begin`, then every blockDim.y-th, below `end`, which is less than 2^31 away.
/// Calls function(at, step, count) for several of them, whose packs begin at the elements at, at + step, …: `count` is
/// std::integral_constant<int, at_once> as long as there are so many, so that their loads are on their way together and
/// none of them is asked about, then of 1.
template <int at_once, typename Function>
__device__ __forceinline__ void visit_rows(std::int64_t begin, std::int64_t end, std::int64_t channel,
                                           std::int64_t channels, Function&& function) {
  const int num_rows = static_cast<int>(end - begin);
  const int apart = static_cast<int>(blockDim.y);
  int row = static_cast<int>(threadIdx.y);
  std::int64_t at = (begin + row) * channels + channel;
  const std::int64_t step = apart * channels;
  for (; row + (at_once - 1) * apart < num_rows; row += at_once * apart, at += at_once * step) {
    function(at, step, std::integral_constant<int, at_once>{});
  }
  for (; row < num_rows; row += apart, at += step) function(at, step, std::integral_constant<int, 1>{});
}

}  // namespace trainer::cuda
