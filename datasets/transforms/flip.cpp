#include "datasets/transforms/flip.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/simd.h"

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

using Bytes16 [[gnu::vector_size(16)]] = std::uint8_t;

TRAINER_SIMD void copy_colours_reversed(const std::uint8_t* from, std::uint8_t* to, std::int64_t width) {
  std::int64_t x = 0;
  // Five at a time, with the byte before them, which comes out behind them and is written over.
  for (; x + 6 <= width; x += 5) {
    Bytes16 pixels;
    std::memcpy(&pixels, from + 3 * (width - x - 5) - 1, sizeof(pixels));
    pixels = __builtin_shufflevector(pixels, pixels, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    std::memcpy(to + 3 * x, &pixels, sizeof(pixels));
  }
  for (; x < width; ++x) std::memcpy(to + 3 * x, from + 3 * (width - 1 - x), 3);
}

void reverse_colours(std::uint8_t* row, std::int64_t width) {
  constexpr std::int64_t most_pixels = 1024;
  if (width > most_pixels) return reverse_pixels<3>(row, width);
  std::array<std::uint8_t, 3 * most_pixels> reversed;
  copy_colours_reversed(row, reversed.data(), width);
  std::memcpy(row, reversed.data(), static_cast<std::size_t>(3 * width));
}

void reverse_row(std::uint8_t* row, std::int64_t width, std::int64_t channels) {
  switch (channels) {
    case 1:
      std::reverse(row, row + width);
      return;
    case 3:
      return reverse_colours(row, width);
    case 4:
      return reverse_pixels<4>(row, width);
    default:
      break;
  }
  for (std::int64_t x = 0; x < width / 2; ++x) {
    std::swap_ranges(row + x * channels, row + (x + 1) * channels, row + (width - 1 - x) * channels);
  }
}

template <std::size_t channels>
void copy_pixels_reversed(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  from += width * static_cast<std::int64_t>(channels);
  for (std::int64_t x = 0; x < width; ++x, to += channels) {
    from -= channels;
    std::memcpy(to, from, channels);
  }
}

}  // namespace

void copy_reversed(const std::uint8_t* from, std::int64_t width, std::int64_t channels, std::uint8_t* to) {
  switch (channels) {
    case 1:
      std::reverse_copy(from, from + width, to);
      return;
    case 3:
      return copy_colours_reversed(from, to, width);
    case 4:
      return copy_pixels_reversed<4>(from, width, to);
    default:
      break;
  }
  for (std::int64_t x = 0; x < width; ++x)
    std::memcpy(to + x * channels, from + (width - 1 - x) * channels, static_cast<std::size_t>(channels));
}

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
