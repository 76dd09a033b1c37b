#include "datasets/transforms/flip.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace trainer {

namespace {

template <std::size_t channels>
void reverse_pixels(std::uint8_t* row, std::int64_t width) {
  using Pixel = std::array<std::uint8_t, channels>;
  std::uint8_t* left = row;
  std::uint8_t* right = row + (width - 1) * static_cast<std::int64_t>(channels);
  for (; left < right; left += channels, right -= channels) {
    Pixel a, b;
    std::memcpy(&a, left, channels);
    std::memcpy(&b, right, channels);
    std::memcpy(left, &b, channels);
    std::memcpy(right, &a, channels);
  }
}

void reverse_row(std::uint8_t* row, std::int64_t width, std::int64_t channels) {
  switch (channels) {
    case 1:
      std::reverse(row, row + width);
      return;
    case 3:
      return reverse_pixels<3>(row, width);
    case 4:
      return reverse_pixels<4>(row, width);
    default:
      break;
  }
  for (std::int64_t x = 0; x < width / 2; ++x) {
    std::swap_ranges(row + x * channels, row + (x + 1) * channels, row + (width - 1 - x) * channels);
  }
}

}  // namespace

void flip(FlipDirection direction, Image& image) {
  if (direction == FlipDirection::horizontal) {
    for (std::int64_t y = 0; y < image.height(); ++y) reverse_row(image.row(y), image.width(), image.channels());
    return;
  }
  for (std::int64_t y = 0; y < image.height() / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y) + image.row_bytes(), image.row(image.height() - 1 - y));
  }
}

}  // namespace trainer
