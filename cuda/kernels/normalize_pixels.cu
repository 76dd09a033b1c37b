#include "cuda/kernels/normalize_pixels.h"

#include <algorithm>

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {
namespace {

// With what else a launch carries, below the 4 KiB of arguments that every GPU takes.
constexpr int most_channels = 256;
constexpr int normalize_width = 4;

/// Some of the channels, passed by value.
struct ChannelTable {
  float scale[most_channels], offset[most_channels];
  int first = 0, count = 0;
};

/// The table's channels of every pixel. `packed`: these are all channels, and the addresses are aligned to
/// `normalize_width` elements.
template <typename T, bool packed>
__global__ void __launch_bounds__(elementwise_threads)
    normalize_pixels_kernel(const std::uint8_t* __restrict__ pixels, T* __restrict__ y, std::int64_t count,
                            std::int64_t channels, ChannelTable table) {
  wait_for_earlier_kernels();
  // Arguments that each lane indexes on its own are read one lane after the other.
  TRAINER_SHARED(float, scale, most_channels);
  TRAINER_SHARED(float, offset, most_channels);
  for (int i = static_cast<int>(threadIdx.x); i < table.count; i += elementwise_threads) {
    scale[i] = table.scale[i];
    offset[i] = table.offset[i];
  }
  __syncthreads();

  const std::int64_t first = (std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x) * normalize_width;
  const auto num_channels = static_cast<unsigned>(table.count);
  // first % num_channels in 32 bits.
  constexpr unsigned per_block = elementwise_threads * normalize_width;
  unsigned channel =
      (blockIdx.x % num_channels * (per_block % num_channels) + threadIdx.x * normalize_width % num_channels) %
      num_channels;
  const auto next_channel = [&] { channel = channel + 1 == num_channels ? 0 : channel + 1; };
  if (packed && first + normalize_width <= count) {
    const auto pack = *reinterpret_cast<const Pack<std::uint8_t, normalize_width>*>(pixels + first);
    Pack<float, normalize_width> result;
    for (int i = 0; i < normalize_width; ++i, next_channel())
      result.values[i] = static_cast<float>(pack.values[i]) * scale[channel] + offset[channel];
    store_floats(y + first, result);
    return;
  }
  for (std::int64_t i = first; i < count && i < first + normalize_width; ++i, next_channel()) {
    const std::int64_t at =
        num_channels == channels ? i : i / num_channels * channels + table.first + static_cast<std::int64_t>(channel);
    y[at] = from_float<T>(static_cast<float>(pixels[at]) * scale[channel] + offset[channel]);
  }
}

}  // namespace

void normalize_pixels(DType type, const std::uint8_t* pixels, void* y, std::int64_t num_pixels,
                      std::span<const float> scale, std::span<const float> offset, Stream stream) {
  require_internal(scale.size() == offset.size(), "pixels are normalised by one scale and offset a channel");
  const auto channels = static_cast<std::int64_t>(scale.size());
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto aligned = [](const void* address, std::size_t alignment) {
      return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
    };
    const bool packed =
        channels <= most_channels && aligned(pixels, normalize_width) && aligned(y, alignof(Pack<T, normalize_width>));
    for (std::int64_t first = 0; first < channels; first += most_channels) {
      const std::int64_t table_channels = std::min<std::int64_t>(most_channels, channels - first);
      ChannelTable table;
      table.first = static_cast<int>(first);
      table.count = static_cast<int>(table_channels);
      std::copy_n(scale.data() + first, table_channels, table.scale);
      std::copy_n(offset.data() + first, table_channels, table.offset);
      const std::int64_t count = num_pixels * table_channels;
      launch(packed ? normalize_pixels_kernel<T, true> : normalize_pixels_kernel<T, false>,
             elementwise_grid(count, normalize_width), {elementwise_threads}, stream, pixels, static_cast<T*>(y), count,
             channels, table);
    }
  });
}

}  // namespace trainer::cuda
