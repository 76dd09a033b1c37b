#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "datasets/image/image.h"
#include "engine/simd.h"

namespace trainer {

/// Pixels that are worked on at once, each colour by itself. The loops are compiled for what the machine has; none of
/// their operations are fused (CMakeLists.txt), so that all give the same.
inline constexpr std::int64_t tile_size = 256;

struct ColorTile {
  std::array<float, tile_size> red, green, blue;
};

template <std::int64_t stride>
TRAINER_SIMD_INLINE void read_pixels(const std::uint8_t* pixels, std::int64_t count, ColorTile& tile) {
  for (std::int64_t i = 0; i < count; ++i) {
    tile.red[i] = pixels[stride * i];
    tile.green[i] = pixels[stride * i + 1];
    tile.blue[i] = pixels[stride * i + 2];
  }
}
TRAINER_SIMD_INLINE void read_tile(const std::uint8_t* pixels, std::int64_t stride, std::int64_t count,
                                   ColorTile& tile) {
  if (stride == 3) return read_pixels<3>(pixels, count, tile);
  read_pixels<4>(pixels, count, tile);
}

template <std::int64_t stride>
TRAINER_SIMD_INLINE void write_pixels(const ColorTile& tile, std::int64_t count, std::uint8_t* pixels) {
  for (std::int64_t i = 0; i < count; ++i) {
    pixels[stride * i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(tile.red[i]));
    pixels[stride * i + 1] = static_cast<std::uint8_t>(static_cast<std::int32_t>(tile.green[i]));
    pixels[stride * i + 2] = static_cast<std::uint8_t>(static_cast<std::int32_t>(tile.blue[i]));
  }
}
/// Rounds down numbers from 0 to below 256.
TRAINER_SIMD_INLINE void write_tile(const ColorTile& tile, std::int64_t stride, std::int64_t count,
                                    std::uint8_t* pixels) {
  if (stride == 3) return write_pixels<3>(tile, count, pixels);
  write_pixels<4>(tile, count, pixels);
}

/// torchvision's grey of a colour: 0.2989 r + 0.587 g + 0.114 b, rounded down; of whole numbers, which are divided
/// once.
TRAINER_SIMD_INLINE float grey_at(const ColorTile& tile, std::int64_t i) {
  const float weighted = 2989 * tile.red[i] + 5870 * tile.green[i] + 1140 * tile.blue[i];
  return static_cast<float>(static_cast<std::int32_t>(weighted / 10000));
}

/// `act` gets the first of at most tile_size pixels, the bytes of one, and how many they are.
template <typename Function>
void for_each_tile(Image& image, const Function& act) {
  const std::int64_t num_pixels = image.height() * image.width(), stride = image.channels();
  for (std::int64_t i = 0; i < num_pixels; i += tile_size) {
    act(image.row(0) + i * stride, stride, std::min(tile_size, num_pixels - i));
  }
}

}  // namespace trainer
