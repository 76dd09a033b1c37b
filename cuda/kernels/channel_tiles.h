#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/grid.h"

namespace trainer::cuda {

inline constexpr int tile_threads = 256;

/// How blocks cover (rows, channels): threads along x have one pack of n channels each, threads along y one row each.
/// The blocks of a launch count through the tiles of channels first, then through groups of rows.
struct ChannelTiles {
  int lanes = 1, rows = 1;  ///< of a block, powers of two; lanes · rows = tile_threads
  std::int64_t num_tiles = 1;

  Dim3 block() const { return {static_cast<unsigned>(lanes), static_cast<unsigned>(rows)}; }
  Dim3 grid(std::int64_t num_row_groups) const { return grid_of(num_tiles * num_row_groups); }
  /// For a pass over the elements: a thread takes more rows, up to 8, where that leaves about a thousand blocks.
  std::int64_t rows_per_block(std::int64_t num_rows) const {
    return rows * std::clamp<std::int64_t>(num_rows * num_tiles / rows / 1024, 1, 8);
  }
};

/// Tiles of at most `most_lanes` packs, a power of two.
inline ChannelTiles channel_tiles(std::int64_t num_packs, int most_lanes) {
  int lanes = 1;
  while (lanes < most_lanes && lanes < num_packs) lanes *= 2;
  return {lanes, tile_threads / lanes, num_blocks(num_packs, lanes)};
}

/// Where a thread of such a launch stands.
struct TilePosition {
  std::int64_t channel;    ///< the first of its pack
  std::int64_t row_group;  ///< of its block
  bool active;             ///< its channels exist
};

template <int n>
__device__ __forceinline__ TilePosition tile_position(std::int64_t num_tiles, std::int64_t channels) {
  const auto tiles = static_cast<unsigned>(num_tiles);
  const std::int64_t tile = blockIdx.x % tiles;
  const std::int64_t channel = (tile * blockDim.x + threadIdx.x) * n;
  return {channel, blockIdx.x / tiles, channel < channels};
}

}  // namespace trainer::cuda
