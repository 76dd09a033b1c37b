#include "datasets/transforms/color.h"

#include <algorithm>
#include <cstdint>

#include "datasets/transforms/color_tile.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD_INLINE float clamped(float value, float most) {
  value = value > 0 ? value : 0;
  return value < most ? value : most;
}

/// What torchvision blends: value · ratio, rounded to single precision, plus a rest, rounded once more as a fused
/// operation is.
TRAINER_SIMD_INLINE float blended(float value, float ratio, double rest) {
  return clamped(static_cast<float>(value * ratio + rest), 255);
}

TRAINER_SIMD void blend_bytes(float ratio, double rest, std::uint8_t* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(blended(values[i], ratio, rest)));
  }
}

TRAINER_SIMD void blend_colors(float ratio, double rest, std::uint8_t* pixels, std::int64_t stride,
                               std::int64_t count) {
  ColorTile tile;
  read_tile(pixels, stride, count, tile);
  for (std::int64_t i = 0; i < count; ++i) {
    tile.red[i] = blended(tile.red[i], ratio, rest);
    tile.green[i] = blended(tile.green[i], ratio, rest);
    tile.blue[i] = blended(tile.blue[i], ratio, rest);
  }
  write_tile(tile, stride, count, pixels);
}

/// Makes each colour value · factor + other · (1 − factor).
void blend(float other, double factor, Image& image) {
  const auto ratio = static_cast<float>(factor);
  const double rest = static_cast<double>(other) * static_cast<float>(1 - factor);
  if (image.channels() < 4) return blend_bytes(ratio, rest, image.row(0), image.num_bytes());
  for_each_tile(image, [&](std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
    blend_colors(ratio, rest, pixels, stride, count);
  });
}

TRAINER_SIMD std::int64_t sum_of_grey(const std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
  ColorTile tile;
  read_tile(pixels, stride, count, tile);
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<std::int32_t>(grey_at(tile, i));
  return sum;
}

TRAINER_SIMD void saturate(float ratio, float rest, std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
  ColorTile tile;
  read_tile(pixels, stride, count, tile);
  const double grey_ratio = rest;
  for (std::int64_t i = 0; i < count; ++i) {
    const double grey = grey_at(tile, i) * grey_ratio;
    tile.red[i] = blended(tile.red[i], ratio, grey);
    tile.green[i] = blended(tile.green[i], ratio, grey);
    tile.blue[i] = blended(tile.blue[i], ratio, grey);
  }
  write_tile(tile, stride, count, pixels);
}

/// By way of hue, saturation and value (A. R. Smith, "Color gamut transform pairs", SIGGRAPH 1978).
TRAINER_SIMD void shift_hue(float shift, std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
  constexpr float per_byte = 1.0F / 255.0F, sixth = 1.0F / 6.0F, just_below_256 = 255.999F;
  ColorTile tile;
  read_tile(pixels, stride, count, tile);
  for (std::int64_t i = 0; i < count; ++i) {
    const float red = tile.red[i] * per_byte, green = tile.green[i] * per_byte, blue = tile.blue[i] * per_byte;
    const float more = red > green ? red : green, less = red > green ? green : red;
    const float most = more > blue ? more : blue, least = less < blue ? less : blue;
    const float range = most - least;
    const float divisor = range == 0 ? 1.0F : range, whole = range == 0 ? 1.0F : most;
    const float saturation = range / whole;
    const float to_red = (most - red) / divisor, to_green = (most - green) / divisor, to_blue = (most - blue) / divisor;
    const float from_green = to_red + 2.0F - to_blue, from_blue = to_green + 4.0F - to_red;
    const float from_others = most == green ? from_green : from_blue;
    const float sixths = most == red ? to_blue - to_green : from_others;
    float hue = sixths * sixth + 1.0F;  // in [5/6, 11/6]
    hue = hue >= 1 ? hue - 1 : hue;
    hue += shift;  // in [−1/2, 3/2)
    const float raised = hue < 0 ? hue + 1 : hue;
    hue = raised >= 1 ? raised - 1 : raised;

    const float scaled_hue = hue * 6;
    const float sector = static_cast<float>(static_cast<std::int32_t>(scaled_hue));
    const float saturated = saturation * (scaled_hue - sector), unsaturated = 1 - saturation;
    const float low = clamped(unsaturated * most, 1), falling = clamped((1 - saturated) * most, 1),
                rising = clamped((saturated + unsaturated) * most, 1);
    // Sector 6, to which the largest hue may be rounded, is 0 again.
    const float red_before = sector == 1 ? falling : sector == 4 ? rising : low;
    const float green_before = sector == 3 ? falling : sector >= 4 ? low : most;
    const float blue_before = sector == 5 ? falling : sector == 2 ? rising : low;
    const bool is_first = sector == 0 || sector == 6;
    tile.red[i] = (is_first || sector == 5 ? most : red_before) * just_below_256;
    tile.green[i] = (is_first ? rising : green_before) * just_below_256;
    tile.blue[i] = (sector == 3 || sector == 4 ? most : blue_before) * just_below_256;
  }
  write_tile(tile, stride, count, pixels);
}

float mean_grey(Image& image) {
  std::int64_t sum = 0;
  if (image.channels() < 3) {
    for (std::int64_t i = 0; i < image.num_bytes(); i += image.channels()) sum += image.row(0)[i];
  } else {
    for_each_tile(image, [&](const std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
      sum += sum_of_grey(pixels, stride, count);
    });
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(image.height() * image.width()));
}

}  // namespace

void adjust_color(const ColorStep& step, Image& image) {
  const bool is_grey = image.channels() < 3;
  switch (step.property) {
    case ColorProperty::brightness:
      return blend(0, step.factor, image);
    case ColorProperty::contrast:
      return blend(mean_grey(image), step.factor, image);
    case ColorProperty::saturation:
      if (is_grey) return;
      for_each_tile(image, [&](std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
        saturate(static_cast<float>(step.factor), static_cast<float>(1 - step.factor), pixels, stride, count);
      });
      return;
    case ColorProperty::hue:
      if (is_grey) return;
      for_each_tile(image, [&](std::uint8_t* pixels, std::int64_t stride, std::int64_t count) {
        shift_hue(static_cast<float>(step.factor), pixels, stride, count);
      });
  }
}

}  // namespace trainer
