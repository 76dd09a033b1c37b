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

/// As normalize_pixels_kernel, of images that are mixed. `packed`: also that a row is a whole number of packs, so that
/// one lies in one row of one image.
template <typename T, bool packed>
__global__ void __launch_bounds__(elementwise_threads)
    normalize_mixed_pixels_kernel(const std::uint8_t* __restrict__ pixels, const MixedSample* __restrict__ mixing,
                                  T* __restrict__ y, std::int64_t count, MixedImages images, std::int64_t channels,
                                  ChannelTable table) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, scale, most_channels);
  TRAINER_SHARED(float, offset, most_channels);
  for (int i = static_cast<int>(threadIdx.x); i < table.count; i += elementwise_threads) {
    scale[i] = table.scale[i];
    offset[i] = table.offset[i];
  }
  __syncthreads();

  constexpr int width = packed ? normalize_width : 1;
  const std::int64_t first = (std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x) * width;
  if (first >= count) return;
  // Of the table's channels alone.
  const std::int64_t row_elements = images.width * table.count;
  const std::int64_t row = first / row_elements;
  const auto in_row = static_cast<unsigned>(first - row * row_elements);
  const std::int64_t sample = row / images.height, at = row - sample * images.height;
  unsigned column = in_row / static_cast<unsigned>(table.count);
  unsigned channel = in_row - column * static_cast<unsigned>(table.count);
  const MixedSample mixed = mixing[sample];
  const bool has_box = mixed.top <= at && at < mixed.bottom;
  const std::int64_t start = row * images.width * channels;
  const std::int64_t partner_start = (mixed.partner * images.height + at) * images.width * channels;
  const auto value_of = [&](std::uint8_t own, std::uint8_t partner) {
    const auto at_column = static_cast<std::int32_t>(column);
    const bool is_in_box = has_box && mixed.left <= at_column && at_column < mixed.right;
    const float share = is_in_box ? 0.0f : mixed.blend;
    const float blended = static_cast<float>(own) * share + static_cast<float>(partner) * (1 - share);
    return blended * scale[channel] + offset[channel];
  };
  if constexpr (packed) {
    using Bytes = Pack<std::uint8_t, normalize_width>;
    const auto own = *reinterpret_cast<const Bytes*>(pixels + first);
    const auto partner = *reinterpret_cast<const Bytes*>(pixels + partner_start + in_row);
    Pack<float, normalize_width> result;
    for (int i = 0; i < normalize_width; ++i) {
      result.values[i] = value_of(own.values[i], partner.values[i]);
      if (++channel < static_cast<unsigned>(table.count)) continue;
      channel = 0;
      ++column;
    }
    store_floats(y + first, result);
  } else {
    const std::int64_t within = column * channels + table.first + channel;
    y[start + within] = from_float<T>(value_of(pixels[start + within], pixels[partner_start + within]));
  }
}

bool is_aligned_to(const void* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// Calls visit(table) for each part of the channels that a launch carries.
template <typename Visit>
void for_each_channel_table(std::span<const float> scale, std::span<const float> offset, Visit&& visit) {
  require_internal(scale.size() == offset.size(), "pixels are normalised by one scale and offset a channel");
  const auto channels = static_cast<std::int64_t>(scale.size());
  for (std::int64_t first = 0; first < channels; first += most_channels) {
    const std::int64_t count = std::min<std::int64_t>(most_channels, channels - first);
    ChannelTable table;
    table.first = static_cast<int>(first);
    table.count = static_cast<int>(count);
    std::copy_n(scale.data() + first, count, table.scale);
    std::copy_n(offset.data() + first, count, table.offset);
    visit(table);
  }
}

}  // namespace

void normalize_pixels(DType type, const std::uint8_t* pixels, void* y, std::int64_t num_pixels,
                      std::span<const float> scale, std::span<const float> offset, Stream stream) {
  const auto channels = static_cast<std::int64_t>(scale.size());
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const bool packed = channels <= most_channels && is_aligned_to(pixels, normalize_width) &&
                        is_aligned_to(y, alignof(Pack<T, normalize_width>));
    for_each_channel_table(scale, offset, [&](const ChannelTable& table) {
      const std::int64_t count = num_pixels * table.count;
      launch(packed ? normalize_pixels_kernel<T, true> : normalize_pixels_kernel<T, false>,
             elementwise_grid(count, normalize_width), {elementwise_threads}, stream, pixels, static_cast<T*>(y), count,
             channels, table);
    });
  });
}

void normalize_mixed_pixels(DType type, const std::uint8_t* pixels, const MixedSample* mixing, void* y,
                            const MixedImages& images, std::span<const float> scale, std::span<const float> offset,
                            Stream stream) {
  const auto channels = static_cast<std::int64_t>(scale.size());
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const bool packed = channels <= most_channels && images.width * channels % normalize_width == 0 &&
                        is_aligned_to(pixels, normalize_width) && is_aligned_to(y, alignof(Pack<T, normalize_width>));
    for_each_channel_table(scale, offset, [&](const ChannelTable& table) {
      const std::int64_t count = images.samples * images.height * images.width * table.count;
      launch(packed ? normalize_mixed_pixels_kernel<T, true> : normalize_mixed_pixels_kernel<T, false>,
             elementwise_grid(count, packed ? normalize_width : 1), {elementwise_threads}, stream, pixels, mixing,
             static_cast<T*>(y), count, images, channels, table);
    });
  });
}

}  // namespace trainer::cuda
