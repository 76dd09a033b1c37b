#include "datasets/transforms/grey.h"

#include <cstring>

#include "datasets/transforms/color_tile.h"

namespace trainer {

namespace {

TRAINER_SIMD void write_grey(const std::uint8_t* pixels, std::int64_t stride, std::int64_t count, std::uint8_t* grey) {
  ColorTile tile;
  read_tile(pixels, stride, count, tile);
  for (std::int64_t i = 0; i < count; ++i) {
    grey[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(grey_at(tile, i)));
  }
}

}  // namespace

void to_grey(const Image& source, std::int64_t channels, Image& target) {
  target.reshape(source.height(), source.width(), channels);
  const std::int64_t num_pixels = source.height() * source.width(), stride = source.channels();
  std::array<std::uint8_t, tile_size> greys{};
  for (std::int64_t i = 0; i < num_pixels; i += tile_size) {
    const std::int64_t count = std::min(tile_size, num_pixels - i);
    const std::uint8_t* const pixels = source.row(0) + i * stride;
    std::uint8_t* written = target.row(0) + i * channels;
    std::uint8_t* const grey = channels == 1 ? written : greys.data();
    if (stride < 3) {
      for (std::int64_t j = 0; j < count; ++j) grey[j] = pixels[j * stride];
    } else {
      write_grey(pixels, stride, count, grey);
    }
    if (channels == 1) continue;
    for (std::int64_t j = 0; j < count; ++j, written += channels) {
      std::memset(written, grey[j], 3);
      if (channels == 4) written[3] = stride == 4 ? pixels[j * stride + 3] : 255;
    }
  }
}

}  // namespace trainer
