#include "cuda/kernels/copy_channels.h"

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr int copied_rows_at_once = 4;
constexpr int most_copying_lanes = 32;

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    copy_channels_kernel(const T* __restrict__ x, std::int64_t x_channels, T* __restrict__ y, std::int64_t y_channels,
                         std::int64_t rows, std::int64_t channels, std::int64_t rows_per_block,
                         std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += copied_rows_at_once * blockDim.y) {
    Pack<T, n> values[copied_rows_at_once]{};
    for (int u = 0; u < copied_rows_at_once; ++u) {
      const std::int64_t r = row + u * blockDim.y;
      if (r < end) values[u] = load_pack<n>(x + r * x_channels + at.channel);
    }
    for (int u = 0; u < copied_rows_at_once; ++u) {
      const std::int64_t r = row + u * blockDim.y;
      if (r < end) store_pack(y + r * y_channels + at.channel, values[u]);
    }
  }
}

/// Tiles are of y's channels; packs lie wholly in the range or outside.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    expand_channels_kernel(const T* __restrict__ x, std::int64_t x_channels, T* __restrict__ y, std::int64_t first,
                           std::int64_t rows, std::int64_t y_channels, std::int64_t rows_per_block,
                           std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, y_channels);
  if (!at.active) return;
  const std::int64_t channel = at.channel - first;
  const bool is_copied = channel >= 0 && channel < x_channels;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    Pack<T, n> values;
    if (is_copied) {
      values = load_pack<n>(x + row * x_channels + channel);
    } else {
      for (int i = 0; i < n; ++i) values.values[i] = from_float<T>(0.0f);
    }
    store_pack(y + row * y_channels + at.channel, values);
  }
}

}  // namespace

void expand_channels(DType type, const void* x, void* y, const ChannelRange& to, std::int64_t rows,
                     std::int64_t channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const auto expand = [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(to.row_channels / n, most_copying_lanes);
      const std::int64_t rows_per_block = tiles.rows_per_block(rows);
      launch(expand_channels_kernel<T, n>, tiles.grid(num_blocks(rows, rows_per_block)), tiles.block(), stream,
             static_cast<const T*>(x), channels, static_cast<T*>(y), to.first, rows, to.row_channels, rows_per_block,
             tiles.num_tiles);
    };
    const bool range_fits = channels % pack_width<T> == 0 && to.first % pack_width<T> == 0;
    if (!range_fits) return expand(std::integral_constant<int, 1>{});
    with_pack_width<T>(to.row_channels, {x, y}, expand);
  });
}

void copy_channels(DType type, const void* x, const ChannelRange& from, void* y, const ChannelRange& to,
                   std::int64_t rows, std::int64_t channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    const T* const source = static_cast<const T*>(x) + from.first;
    T* const target = static_cast<T*>(y) + to.first;
    const auto copy = [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(channels / n, most_copying_lanes);
      const std::int64_t rows_per_block = tiles.rows_per_block(rows);
      launch(copy_channels_kernel<T, n>, tiles.grid(num_blocks(rows, rows_per_block)), tiles.block(), stream, source,
             from.row_channels, target, to.row_channels, rows, channels, rows_per_block, tiles.num_tiles);
    };
    const bool rows_fit = from.row_channels % pack_width<T> == 0 && to.row_channels % pack_width<T> == 0;
    if (!rows_fit) return copy(std::integral_constant<int, 1>{});
    with_pack_width<T>(channels, {source, target}, copy);
  });
}

}  // namespace trainer::cuda
