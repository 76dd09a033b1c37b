#include "datasets/image/channel_conversion.h"

#include <cstring>

namespace trainer {
namespace {

/// ITU-R 601-2's luma in 16 bits of fraction, rounded, as PIL has it.
std::uint8_t luma(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16);
}

template <int from_channels, int to_channels>
void convert_pixels(const std::uint8_t* from, std::uint8_t* to, std::int64_t num_pixels) {
  for (std::int64_t i = 0; i < num_pixels; ++i, from += from_channels, to += to_channels) {
    if constexpr (to_channels == 1) {
      to[0] = from_channels <= 2 ? from[0] : luma(from);
    } else {
      for (int channel = 0; channel < 3; ++channel) to[channel] = from[from_channels <= 2 ? 0 : channel];
      if constexpr (to_channels == 4) to[3] = from_channels % 2 == 0 ? from[from_channels - 1] : 255;
    }
  }
}

template <int to_channels>
void convert_pixels_to(const std::uint8_t* from, std::int64_t from_channels, std::uint8_t* to,
                       std::int64_t num_pixels) {
  if (from_channels == 1) return convert_pixels<1, to_channels>(from, to, num_pixels);
  if (from_channels == 2) return convert_pixels<2, to_channels>(from, to, num_pixels);
  if (from_channels == 3) return convert_pixels<3, to_channels>(from, to, num_pixels);
  return convert_pixels<4, to_channels>(from, to, num_pixels);
}

}  // namespace

void convert_channels(const std::uint8_t* from, std::int64_t from_channels, std::uint8_t* to, std::int64_t to_channels,
                      std::int64_t num_pixels) {
  if (from_channels == to_channels) {
    std::memcpy(to, from, static_cast<std::size_t>(num_pixels * to_channels));
    return;
  }
  if (to_channels == 1) return convert_pixels_to<1>(from, from_channels, to, num_pixels);
  if (to_channels == 3) return convert_pixels_to<3>(from, from_channels, to, num_pixels);
  return convert_pixels_to<4>(from, from_channels, to, num_pixels);
}

void convert_inverted_cmyk(const std::uint8_t* from, std::uint8_t* rgb, std::int64_t num_pixels) {
  for (std::int64_t i = 0; i < num_pixels; ++i, from += 4, rgb += 3) {
    const unsigned light = from[3];
    for (int channel = 0; channel < 3; ++channel) {
      // A rounded division by 255.
      const unsigned product = (255U - from[channel]) * light + 128U;
      rgb[channel] = static_cast<std::uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace trainer
