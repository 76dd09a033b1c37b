#include "datasets/transforms/grey.h"

#include <algorithm>

namespace trainer {

void to_grey(const Image& source, std::int64_t channels, Image& target) {
  target.reshape(source.height(), source.width(), channels);
  const std::int64_t stride = source.channels(), num_colours = std::min<std::int64_t>(channels, 3);
  const std::int64_t num_pixels = source.height() * source.width();
  const std::uint8_t* pixel = source.pixels().data();
  std::uint8_t* grey = target.pixels().data();
  for (std::int64_t i = 0; i < num_pixels; ++i, pixel += stride, grey += channels) {
    const std::uint8_t value = stride < 3 ? pixel[0] : grey_of(pixel[0], pixel[1], pixel[2]);
    for (std::int64_t c = 0; c < num_colours; ++c) grey[c] = value;
    if (channels == 4) grey[3] = stride == 4 ? pixel[3] : 255;
  }
}

}  // namespace trainer
