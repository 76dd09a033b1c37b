#pragma once

#include <cstdint>

namespace trainer {

/// Pixels of 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels as ones of 1, 3 or 4, as DecodeRequest::channels
/// has it: alpha is left out or 255 where there is none, grey of colours is ITU-R 601-2.
void convert_channels(const std::uint8_t* from, std::int64_t from_channels, std::uint8_t* to, std::int64_t to_channels,
                      std::int64_t num_pixels);

/// What Adobe's programs write in a JPEG of four channels (255 is no ink) as RGB, as PIL's convert("RGB") does it.
void convert_inverted_cmyk(const std::uint8_t* from, std::uint8_t* rgb, std::int64_t num_pixels);

}  // namespace trainer
