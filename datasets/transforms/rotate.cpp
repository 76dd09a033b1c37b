#include "datasets/transforms/rotate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/errors.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// Where pixels of a turned image lie in the image it was made of.
struct TurnedGrid {
  TurnedGrid(double degrees, const Image& image)
      : half_height(static_cast<float>(image.height()) * 0.5F), half_width(static_cast<float>(image.width()) * 0.5F) {
    const double radians = degrees * (std::numbers::pi / 180);
    const auto cosine = static_cast<float>(std::cos(radians)), sine = static_cast<float>(std::sin(radians));
    x_of_x = cosine / half_width;
    x_of_y = -sine / half_width;
    y_of_x = sine / half_height;
    y_of_y = cosine / half_height;
  }

  float half_height, half_width;
  float x_of_x = 0, x_of_y = 0, y_of_x = 0, y_of_y = 0;
};

/// Pixels of a row that are placed at once.
constexpr std::int64_t num_placed = 256;
struct Places {
  std::array<float, num_placed> y, x;
};

/// Rounded once, as the fused operations of PyTorch's grid_sample are.
TRAINER_SIMD_INLINE float pixels_from(float centre, float half_size) {
  return static_cast<float>(static_cast<double>(centre + 1) * half_size - 0.5);
}

/// Of pixels (y, x) … (y, x + count − 1).
TRAINER_SIMD void find_places(const TurnedGrid& grid, std::int64_t y, std::int64_t x, std::int64_t count,
                              Places& places) {
  const float from_top = static_cast<float>(y) + 0.5F - grid.half_height;
  const float first = static_cast<float>(x) + 0.5F - grid.half_width;
  const float across = from_top * grid.x_of_y, down = from_top * grid.y_of_y;
  for (std::int64_t i = 0; i < count; ++i) {
    const float from_left = first + static_cast<float>(static_cast<std::int32_t>(i));
    // From the centre on, in halves of the image.
    places.x[i] = pixels_from(from_left * grid.x_of_x + across, grid.half_width);
    places.y[i] = pixels_from(from_left * grid.y_of_x + down, grid.half_height);
  }
}

/// To the nearest whole number, to an even one from between two; of numbers below 2^22 in size.
TRAINER_SIMD_INLINE float nearest_whole(float value) {
  constexpr float shift = 0x1.8p23F;
  return (value + shift) - shift;
}

/// Makes places those of the nearest pixels, −1 where these are none of the image's.
TRAINER_SIMD void find_nearest(const TurnedGrid& grid, std::int64_t count, const Places& places,
                               std::array<std::int32_t, num_placed>& rows,
                               std::array<std::int32_t, num_placed>& columns) {
  const float height = 2 * grid.half_height, width = 2 * grid.half_width;
  for (std::int64_t i = 0; i < count; ++i) {
    const float row = nearest_whole(places.y[i]), column = nearest_whole(places.x[i]);
    const bool is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width);
    rows[i] = is_inside ? static_cast<std::int32_t>(row) : -1;
    columns[i] = is_inside ? static_cast<std::int32_t>(column) : -1;
  }
}

/// Rotations by a quarter and a half are exact.
void turn_by_quarters(int num_quarters, const Image& source, Image& target) {
  const std::int64_t height = source.height(), width = source.width(), channels = source.channels();
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      std::int64_t source_y = height - 1 - y, source_x = width - 1 - x;
      if (num_quarters == 1) {
        source_y = x;
        source_x = width - 1 - y;
      } else if (num_quarters == 3) {
        source_y = height - 1 - x;
        source_x = y;
      }
      std::memcpy(target.row(y) + x * channels, source.row(source_y) + source_x * channels,
                  static_cast<std::size_t>(channels));
    }
  }
}

template <std::int64_t channels>
void take_nearest(const Image& source, const std::int32_t* rows, const std::int32_t* columns, std::int64_t count,
                  std::uint8_t fill, std::uint8_t* pixel) {
  for (std::int64_t i = 0; i < count; ++i, pixel += channels) {
    if (rows[i] < 0) {
      std::memset(pixel, fill, channels);
    } else {
      std::memcpy(pixel, source.row(rows[i]) + columns[i] * channels, channels);
    }
  }
}

/// A pixel of which corners lie outside, or any: those count as 0, and then the share inside once more.
void mix_at_border(const Image& source, float y, float x, std::uint8_t fill, std::uint8_t* pixel) {
  const std::int64_t channels = source.channels();
  const auto border = static_cast<float>(fill);
  const float above = std::floor(y), left_of = std::floor(x);
  const float down = y - above, right = x - left_of;
  const auto top = static_cast<std::int64_t>(above), left = static_cast<std::int64_t>(left_of);
  const std::array<float, 2> vertical{1 - down, down}, horizontal{1 - right, right};
  std::array<const std::uint8_t*, 4> corners{};
  std::array<float, 4> weights{};
  float inside = 0;
  for (std::size_t corner = 0; corner < 4; ++corner) {
    const std::int64_t row = top + static_cast<std::int64_t>(corner / 2);
    const std::int64_t column = left + static_cast<std::int64_t>(corner % 2);
    const bool is_inside = row >= 0 && row < source.height() && column >= 0 && column < source.width();
    corners[corner] = is_inside ? source.row(row) + column * channels : source.row(0);
    weights[corner] = is_inside ? vertical[corner / 2] * horizontal[corner % 2] : 0;
    inside += weights[corner];
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    float sum = 0;
    for (std::size_t corner = 0; corner < 4; ++corner) sum += static_cast<float>(corners[corner][c]) * weights[corner];
    pixel[c] = static_cast<std::uint8_t>(nearest_whole((sum - border) * inside + border));
  }
}

template <std::int64_t channels>
void take_bilinear(const Image& source, const Places& places, std::int64_t count, std::uint8_t fill,
                   std::uint8_t* pixel) {
  const auto last_row = static_cast<float>(source.height() - 1), last_column = static_cast<float>(source.width() - 1);
  const std::int64_t stride = source.row_bytes();
  for (std::int64_t i = 0; i < count; ++i, pixel += channels) {
    const float y = places.y[i], x = places.x[i];
    if (!(y >= 0 && y < last_row && x >= 0 && x < last_column)) {
      mix_at_border(source, y, x, fill, pixel);
      continue;
    }
    const auto top = static_cast<std::int32_t>(y), left = static_cast<std::int32_t>(x);
    const float down = y - static_cast<float>(top), right = x - static_cast<float>(left);
    const float up = 1 - down, leftward = 1 - right;
    const std::uint8_t* const above = source.row(top) + left * channels;
    const std::uint8_t* const below = above + stride;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float sum =
          static_cast<float>(above[c]) * (up * leftward) + static_cast<float>(above[c + channels]) * (up * right) +
          static_cast<float>(below[c]) * (down * leftward) + static_cast<float>(below[c + channels]) * (down * right);
      pixel[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(nearest_whole(sum)));
    }
  }
}

template <std::int64_t channels>
void turn(const TurnedGrid& grid, Resampling interpolation, std::uint8_t fill, const Image& source, Image& target) {
  Places places;
  std::array<std::int32_t, num_placed> rows{}, columns{};
  for (std::int64_t y = 0; y < target.height(); ++y) {
    for (std::int64_t x = 0; x < target.width(); x += num_placed) {
      const std::int64_t count = std::min(num_placed, target.width() - x);
      std::uint8_t* const pixels = target.row(y) + x * channels;
      find_places(grid, y, x, count, places);
      if (interpolation == Resampling::nearest) {
        find_nearest(grid, count, places, rows, columns);
        take_nearest<channels>(source, rows.data(), columns.data(), count, fill, pixels);
      } else {
        take_bilinear<channels>(source, places, count, fill, pixels);
      }
    }
  }
}

}  // namespace

void rotate(double degrees, Resampling interpolation, std::uint8_t fill, const Image& source, Image& target) {
  target.reshape(source.height(), source.width(), source.channels());
  double turned = std::fmod(degrees, 360);
  if (turned < 0) turned += 360;
  const double quarters = turned / 90;
  const bool is_exact =
      quarters == 0 || quarters == 2 || (source.height() == source.width() && (quarters == 1 || quarters == 3));
  if (is_exact && quarters == 0) {
    std::memcpy(target.row(0), source.row(0), static_cast<std::size_t>(source.num_bytes()));
  } else if (is_exact) {
    turn_by_quarters(static_cast<int>(quarters), source, target);
  } else {
    require_internal(interpolation != Resampling::bicubic, "an image is turned by nearest or bilinear pixels");
    const TurnedGrid grid(turned, source);
    switch (source.channels()) {
      case 1:
        return turn<1>(grid, interpolation, fill, source, target);
      case 3:
        return turn<3>(grid, interpolation, fill, source, target);
      case 4:
        return turn<4>(grid, interpolation, fill, source, target);
      default:
        throw InternalError("internal error: an image has 1, 3 or 4 channels");
    }
  }
}

}  // namespace trainer
