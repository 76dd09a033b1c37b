#include "cuda/kernels/add_bias.h"

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr int added_rows_at_once = 4;
constexpr int bias_lanes = 32;

template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    add_bias_kernel(const T* __restrict__ bias, T* y, std::int64_t rows, std::int64_t columns,
                    std::int64_t rows_per_block, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition position = tile_position<n>(num_tiles, columns);
  if (!position.active) return;
  const auto [begin, end] = position.rows_of_group(rows_per_block, rows);
  const Pack<float, n> added = load_floats<n>(bias + position.channel);
  visit_rows<added_rows_at_once>(begin, end, position.channel, columns,
                                 [&](std::int64_t at, std::int64_t step, auto count) {
                                   constexpr int num_rows = decltype(count)::value;
                                   Pack<float, n> values[num_rows];
                                   for (int u = 0; u < num_rows; ++u) values[u] = load_floats<n>(y + at + u * step);
                                   for (int u = 0; u < num_rows; ++u) {
                                     for (int i = 0; i < n; ++i) values[u].values[i] += added.values[i];
                                     store_floats(y + at + u * step, values[u]);
                                   }
                                 });
}

}  // namespace

void add_bias(DType type, const void* bias, void* y, std::int64_t rows, std::int64_t columns, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(columns, {bias, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(columns / n, bias_lanes);
      const std::int64_t rows_per_block = tiles.rows_per_block(rows);
      launch(add_bias_kernel<T, n>, tiles.grid(num_blocks(rows, rows_per_block)), tiles.block(), stream,
             static_cast<const T*>(bias), static_cast<T*>(y), rows, columns, rows_per_block, tiles.num_tiles);
    });
  });
}

}  // namespace trainer::cuda
