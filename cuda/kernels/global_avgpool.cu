#include "cuda/kernels/global_avgpool.h"

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/pool2d_windows.cuh"

namespace trainer::cuda {

namespace {

/// Pixels whose loads are on their way together.
constexpr int pixels_at_once = 4;

// A block for some channels of one image: threads along y take every blockDim.y-th pixel.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    global_avgpool_forward_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t pixels,
                                  std::int64_t channels, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  using Sum = Pack<float, n>;
  TRAINER_SHARED(Sum, upper, tile_threads / 2);
  const TilePosition position = tile_position<n>(num_tiles, channels);
  const T* const image = x + position.row_group * pixels * channels;
  Sum sum{};
  for (std::int64_t pixel = threadIdx.y; position.active && pixel < pixels; pixel += pixels_at_once * blockDim.y) {
    Sum values[pixels_at_once]{};
    for (int u = 0; u < pixels_at_once; ++u) {
      const std::int64_t at = pixel + u * blockDim.y;
      if (at < pixels) values[u] = load_floats<n>(image + at * channels + position.channel);
    }
    for (int u = 0; u < pixels_at_once; ++u) {
      for (int i = 0; i < n; ++i) sum.values[i] += values[u].values[i];
    }
  }
  for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
    if (threadIdx.y >= rows && threadIdx.y < 2 * rows) upper[(threadIdx.y - rows) * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y < rows) {
      const Sum& other = upper[threadIdx.y * blockDim.x + threadIdx.x];
      for (int i = 0; i < n; ++i) sum.values[i] += other.values[i];
    }
    __syncthreads();
  }
  if (threadIdx.y != 0 || !position.active) return;
  const float factor = 1.0f / static_cast<float>(pixels);
  for (int i = 0; i < n; ++i) sum.values[i] *= factor;
  store_floats(y + position.row_group * channels + position.channel, sum);
}

template <typename T, int n>
__global__ void __launch_bounds__(pool_threads)
    global_avgpool_backward_kernel(const T* __restrict__ dy, T* __restrict__ dx, unsigned pixels, unsigned channels,
                                   unsigned num_packs) {
  wait_for_earlier_kernels();
  // Of 64-bit numbers the divisions would be a subroutine's.
  const unsigned index = blockIdx.x * pool_threads + threadIdx.x;
  if (index >= num_packs) return;
  const unsigned packs_each = channels / n;
  const unsigned pixel = index / packs_each;
  const unsigned channel = (index - pixel * packs_each) * n;
  Pack<float, n> values = load_floats<n>(dy + std::int64_t{pixel / pixels} * channels + channel);
  const float factor = 1.0f / static_cast<float>(pixels);
  for (int i = 0; i < n; ++i) values.values[i] *= factor;
  store_floats(dx + std::int64_t{index} * n, values);
}

}  // namespace

void global_avgpool_forward(DType type, const void* x, void* y, std::int64_t images, std::int64_t pixels,
                            std::int64_t channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(channels, {x, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      // Few pixels need few threads along y; then a block takes more channels.
      int most_lanes = tile_threads;
      while (most_lanes > warp_size && tile_threads / most_lanes < pixels) most_lanes /= 2;
      const ChannelTiles tiles = channel_tiles(channels / n, most_lanes);
      launch(global_avgpool_forward_kernel<T, n>, tiles.grid(images), tiles.block(), stream, static_cast<const T*>(x),
             static_cast<T*>(y), pixels, channels, tiles.num_tiles);
    });
  });
}

void global_avgpool_backward(DType type, const void* dy, void* dx, std::int64_t images, std::int64_t pixels,
                             std::int64_t channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(channels, {dy, dx}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const Pool2dShape shape = {.images = images, .channels = channels, .x = {pixels, 1}, .y = {1, 1}};
      for_each_image_range(shape, n, most_pool_packs, [&](std::int64_t first, std::int64_t count) {
        const int num_packs = pool_int(count * pixels * channels / n);
        launch(global_avgpool_backward_kernel<T, n>, pool_grid(num_packs), {pool_threads}, stream,
               static_cast<const T*>(dy) + first * channels, static_cast<T*>(dx) + first * pixels * channels,
               static_cast<unsigned>(pool_int(pixels)), static_cast<unsigned>(pool_int(channels)),
               static_cast<unsigned>(num_packs));
      });
    });
  });
}

}  // namespace trainer::cuda
