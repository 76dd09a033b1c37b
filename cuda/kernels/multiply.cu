#include "cuda/kernels/multiply.h"

#include <algorithm>

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/elementwise.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

/// Pixels whose loads are on their way together.
constexpr int gated_pixels_at_once = 4;

/// A block has some channels of `pixels_per_block` pixels of one image, whose gate each thread loads once.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    multiply_gate_kernel(const T* x, const T* __restrict__ gate, T* y, std::int64_t pixels, std::int64_t channels,
                         std::int64_t pixels_per_block, std::int64_t blocks_per_image, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const std::int64_t image = at.row_group / blocks_per_image;
  const std::int64_t begin = (at.row_group - image * blocks_per_image) * pixels_per_block;
  const std::int64_t end = begin + pixels_per_block < pixels ? begin + pixels_per_block : pixels;
  const std::int64_t first = image * pixels * channels + at.channel;
  const Pack<float, n> factors = load_floats<n>(gate + image * channels + at.channel);
  for (std::int64_t pixel = begin + threadIdx.y; pixel < end; pixel += gated_pixels_at_once * blockDim.y) {
    Pack<float, n> values[gated_pixels_at_once]{};
    for (int u = 0; u < gated_pixels_at_once; ++u) {
      const std::int64_t p = pixel + u * blockDim.y;
      if (p < end) values[u] = load_floats<n>(x + first + p * channels);
    }
    for (int u = 0; u < gated_pixels_at_once; ++u) {
      const std::int64_t p = pixel + u * blockDim.y;
      for (int i = 0; i < n; ++i) values[u].values[i] *= factors.values[i];
      if (p < end) store_floats(y + first + p * channels, values[u]);
    }
  }
}

/// A block has some channels of one image: threads along y take every blockDim.y-th pixel.
template <typename T, int n>
__global__ void __launch_bounds__(tile_threads)
    multiply_backward_gate_kernel(const T* __restrict__ dy, const T* __restrict__ x, T* __restrict__ dgate,
                                  std::int64_t pixels, std::int64_t channels, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  using Sum = Pack<float, n>;
  TRAINER_SHARED(Sum, upper, tile_threads / 2);
  const TilePosition position = tile_position<n>(num_tiles, channels);
  const std::int64_t first = position.row_group * pixels * channels + position.channel;
  Sum sum{};
  for (std::int64_t pixel = threadIdx.y; position.active && pixel < pixels;
       pixel += gated_pixels_at_once * blockDim.y) {
    Sum gradients[gated_pixels_at_once]{}, values[gated_pixels_at_once]{};
    for (int u = 0; u < gated_pixels_at_once; ++u) {
      const std::int64_t p = pixel + u * blockDim.y;
      if (p >= pixels) continue;
      gradients[u] = load_floats<n>(dy + first + p * channels);
      values[u] = load_floats<n>(x + first + p * channels);
    }
    for (int u = 0; u < gated_pixels_at_once; ++u)
      for (int i = 0; i < n; ++i) sum.values[i] += gradients[u].values[i] * values[u].values[i];
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
  store_floats(dgate + position.row_group * channels + position.channel, sum);
}

/// Few pixels need few threads along y; then a block takes more channels.
ChannelTiles tiles_of_image(std::int64_t pixels, std::int64_t num_packs) {
  int lanes = tile_threads;
  while (lanes > warp_size && tile_threads / lanes < pixels) lanes /= 2;
  return channel_tiles(num_packs, lanes);
}

}  // namespace

void multiply(DType type, const void* a, const void* b, void* y, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    launch_elementwise<typename decltype(element)::type>(Product{}, count, stream, y, a, b);
  });
}

void multiply_gate(DType type, const void* x, const void* gate, void* y, std::int64_t images, std::int64_t pixels,
                   std::int64_t channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(channels, {x, gate, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = tiles_of_image(pixels, channels / n);
      const std::int64_t pixels_per_block = std::min(pixels, tiles.rows_per_block(images * pixels));
      const std::int64_t blocks_per_image = num_blocks(pixels, pixels_per_block);
      launch(multiply_gate_kernel<T, n>, tiles.grid(images * blocks_per_image), tiles.block(), stream,
             static_cast<const T*>(x), static_cast<const T*>(gate), static_cast<T*>(y), pixels, channels,
             pixels_per_block, blocks_per_image, tiles.num_tiles);
    });
  });
}

void multiply_backward_gate(DType type, const void* dy, const void* x, void* dgate, std::int64_t images,
                            std::int64_t pixels, std::int64_t channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(channels, {dy, x, dgate}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = tiles_of_image(pixels, channels / n);
      launch(multiply_backward_gate_kernel<T, n>, tiles.grid(images), tiles.block(), stream, static_cast<const T*>(dy),
             static_cast<const T*>(x), static_cast<T*>(dgate), pixels, channels, tiles.num_tiles);
    });
  });
}

}  // namespace trainer::cuda
