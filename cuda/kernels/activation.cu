#include "cuda/kernels/activation.h"

#include "cuda/kernels/activation_functions.cuh"
#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/elementwise.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {
namespace {

template <typename Function>
struct Backward {
  Function function;
  __device__ float operator()(float dy, float y_or_x) const { return dy * function.slope(y_or_x); }
};

constexpr int most_activation_lanes = 32;

template <typename T, int n, typename Function>
__global__ void __launch_bounds__(tile_threads)
    placed_activation_kernel(Function function, const T* __restrict__ x, T* __restrict__ y, std::int64_t rows,
                             std::int64_t channels, std::int64_t y_channels, std::int64_t rows_per_block,
                             std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    Pack<float, n> values = load_floats<n>(x + row * channels + at.channel);
    for (int i = 0; i < n; ++i) values.values[i] = function(values.values[i]);
    store_floats(y + row * y_channels + at.channel, values);
  }
}

}  // namespace

void activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y, std::int64_t count,
                        Stream stream) {
  with_element_type(type, [&](auto element) {
    with_function(attributes, [&](auto function) {
      launch_elementwise<typename decltype(element)::type>(function, count, stream, y, x);
    });
  });
}

void placed_activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y,
                               std::int64_t rows, std::int64_t channels, std::int64_t y_channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_function(attributes, [&]<typename Function>(Function function) {
      with_pack_width<T>(channels | y_channels, {x, y}, [&](auto width) {
        constexpr int n = decltype(width)::value;
        const ChannelTiles tiles = channel_tiles(channels / n, most_activation_lanes);
        const std::int64_t rows_per_block = tiles.rows_per_block(rows);
        launch(placed_activation_kernel<T, n, Function>, tiles.grid(num_blocks(rows, rows_per_block)), tiles.block(),
               stream, function, static_cast<const T*>(x), static_cast<T*>(y), rows, channels, y_channels,
               rows_per_block, tiles.num_tiles);
      });
    });
  });
}

void activation_backward(DType type, const ActivationAttributes& attributes, const void* dy, const void* y_or_x,
                         void* dx, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    with_function(attributes, [&](auto function) {
      launch_elementwise<typename decltype(element)::type>(Backward<decltype(function)>{function}, count, stream, dx,
                                                           dy, y_or_x);
    });
  });
}

}  // namespace trainer::cuda
