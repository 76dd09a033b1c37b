#include "datasets/transforms/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "datasets/transforms/grey.h"

namespace trainer {

namespace {

using ByteTable = std::array<std::uint8_t, 256>;

std::uint8_t truncated(float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F)); }

std::int64_t num_colours_of(const Image& image) { return image.channels() < 3 ? 1 : 3; }

void look_up(const ByteTable& table, Image& image) {
  const std::int64_t num_colours = num_colours_of(image);
  if (num_colours == image.channels()) {
    for (std::uint8_t& value : image.pixels()) value = table[value];
    return;
  }
  std::uint8_t* pixel = image.pixels().data();
  for (std::int64_t i = image.height() * image.width(); i > 0; --i, pixel += image.channels()) {
    for (std::int64_t c = 0; c < num_colours; ++c) pixel[c] = table[pixel[c]];
  }
}

/// What torchvision blends: value · factor, rounded to single precision, plus other · (1 − factor), rounded once more
/// as a fused operation is.
double scaled(std::size_t value, double factor) { return static_cast<float>(value) * static_cast<float>(factor); }
double rest_of(float other, double factor) { return static_cast<double>(other) * static_cast<float>(1 - factor); }
std::uint8_t blended(double scaled_value, double rest) { return truncated(static_cast<float>(scaled_value + rest)); }

ByteTable blended_with(float other, double factor) {
  const double rest = rest_of(other, factor);
  ByteTable table{};
  for (std::size_t value = 0; value < table.size(); ++value) table[value] = blended(scaled(value, factor), rest);
  return table;
}

float mean_grey(const Image& image) {
  const std::uint8_t* pixel = image.pixels().data();
  const std::int64_t num_pixels = image.height() * image.width(), channels = image.channels();
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < num_pixels; ++i, pixel += channels) {
    sum += channels < 3 ? pixel[0] : grey_of(pixel[0], pixel[1], pixel[2]);
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(num_pixels));
}

void adjust_saturation(double factor, Image& image) {
  std::array<double, 256> scaled_values{}, rests{};
  for (std::size_t value = 0; value < rests.size(); ++value) {
    scaled_values[value] = scaled(value, factor);
    rests[value] = rest_of(static_cast<float>(value), factor);
  }
  std::uint8_t* pixel = image.pixels().data();
  for (std::int64_t i = image.height() * image.width(); i > 0; --i, pixel += image.channels()) {
    const double rest = rests[grey_of(pixel[0], pixel[1], pixel[2])];
    for (std::int64_t c = 0; c < 3; ++c) pixel[c] = blended(scaled_values[pixel[c]], rest);
  }
}

/// Of a pixel by way of hue, saturation and value (A. R. Smith, "Color gamut transform pairs", SIGGRAPH 1978).
void shift_hue(float shift, std::uint8_t* pixel) {
  constexpr float per_byte = 1.0F / 255.0F;
  const float red = static_cast<float>(pixel[0]) * per_byte, green = static_cast<float>(pixel[1]) * per_byte,
              blue = static_cast<float>(pixel[2]) * per_byte;
  const float most = std::max({red, green, blue}), least = std::min({red, green, blue});
  const float range = most - least;
  const float saturation = range / (range == 0 ? 1.0F : most), divisor = range == 0 ? 1.0F : range;
  const float to_red = (most - red) / divisor, to_green = (most - green) / divisor, to_blue = (most - blue) / divisor;
  const float sixths = most == red     ? to_blue - to_green
                       : most == green ? to_red + 2.0F - to_blue
                                       : to_green + 4.0F - to_red;
  float hue = sixths * static_cast<float>(1.0 / 6.0) + 1.0F;  // in [5/6, 11/6]
  hue = hue >= 1 ? hue - 1 : hue;
  hue += shift;  // in [−1/2, 3/2)
  hue = hue < 0 ? hue + 1 : hue >= 1 ? hue - 1 : hue;

  const float scaled = hue * 6;
  const int sector = static_cast<int>(scaled);
  const float within = scaled - static_cast<float>(sector);
  const float saturated = saturation * within, unsaturated = 1 - saturation;
  const auto byte_of = [&](float value) {
    return static_cast<std::uint8_t>(std::clamp(value * most, 0.0F, 1.0F) * 255.999F);
  };
  const std::uint8_t low = byte_of(unsaturated), falling = byte_of(1 - saturated),
                     rising = byte_of(saturated + unsaturated), high = byte_of(1);
  const auto set = [&](std::uint8_t r, std::uint8_t g, std::uint8_t b) {
    pixel[0] = r;
    pixel[1] = g;
    pixel[2] = b;
  };
  switch (sector) {
    case 1:
      return set(falling, high, low);
    case 2:
      return set(low, high, rising);
    case 3:
      return set(low, falling, high);
    case 4:
      return set(rising, low, high);
    case 5:
      return set(high, low, falling);
    default:
      return set(high, rising, low);  // 6, to which the largest hue may be rounded, is 0 again
  }
}

}  // namespace

void adjust_color(const ColorStep& step, Image& image) {
  const bool is_grey = image.channels() < 3;
  switch (step.property) {
    case ColorProperty::brightness:
      return look_up(blended_with(0, step.factor), image);
    case ColorProperty::contrast:
      return look_up(blended_with(mean_grey(image), step.factor), image);
    case ColorProperty::saturation:
      if (!is_grey) adjust_saturation(step.factor, image);
      return;
    case ColorProperty::hue:
      break;
  }
  if (is_grey) return;
  std::uint8_t* pixel = image.pixels().data();
  for (std::int64_t i = image.height() * image.width(); i > 0; --i, pixel += image.channels()) {
    shift_hue(static_cast<float>(step.factor), pixel);
  }
}

}  // namespace trainer
