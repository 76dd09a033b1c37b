#include "datasets/transforms/rotate.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/errors.h"

namespace trainer {

namespace {

/// Where pixels of a turned image lie in the image it was made of.
class TurnedGrid {
 public:
  TurnedGrid(double degrees, const Image& image)
      : half_height_(static_cast<float>(image.height()) * 0.5F), half_width_(static_cast<float>(image.width()) * 0.5F) {
    const double radians = degrees * (std::numbers::pi / 180);
    const auto cosine = static_cast<float>(std::cos(radians)), sine = static_cast<float>(std::sin(radians));
    x_of_x_ = cosine / half_width_;
    x_of_y_ = -sine / half_width_;
    y_of_x_ = sine / half_height_;
    y_of_y_ = cosine / half_height_;
  }

  struct Place {
    float y, x;
  };
  Place at(std::int64_t y, std::int64_t x) const {
    const float from_top = static_cast<float>(y) + 0.5F - half_height_;
    const float from_left = static_cast<float>(x) + 0.5F - half_width_;
    // From the centre on, in halves of the image.
    const float right = from_left * x_of_x_ + from_top * x_of_y_;
    const float down = from_left * y_of_x_ + from_top * y_of_y_;
    return {pixels_from(down, half_height_), pixels_from(right, half_width_)};
  }

 private:
  /// Rounded once, as the fused operations of PyTorch's grid_sample are.
  static float pixels_from(float centre, float half_size) {
    return static_cast<float>(static_cast<double>(centre + 1) * half_size - 0.5);
  }

  float half_height_, half_width_;
  float x_of_x_ = 0, x_of_y_ = 0, y_of_x_ = 0, y_of_y_ = 0;
};

/// To the nearest whole number, to an even one from between two; of numbers below 2^22 in size.
float nearest_whole(float value) {
  constexpr float shift = 0x1.8p23F;
  return (value + shift) - shift;
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

void turn_to_nearest(const TurnedGrid& grid, std::uint8_t fill, const Image& source, Image& target) {
  const std::int64_t channels = source.channels();
  const auto height = static_cast<float>(source.height()), width = static_cast<float>(source.width());
  for (std::int64_t y = 0; y < target.height(); ++y) {
    std::uint8_t* pixel = target.row(y);
    for (std::int64_t x = 0; x < target.width(); ++x, pixel += channels) {
      const TurnedGrid::Place place = grid.at(y, x);
      const float row = nearest_whole(place.y), column = nearest_whole(place.x);
      if (row >= 0 && row < height && column >= 0 && column < width) {
        const std::uint8_t* const shown =
            source.row(static_cast<std::int64_t>(row)) + static_cast<std::int64_t>(column) * channels;
        for (std::int64_t c = 0; c < channels; ++c) pixel[c] = shown[c];
      } else {
        for (std::int64_t c = 0; c < channels; ++c) pixel[c] = fill;
      }
    }
  }
}

void turn_bilinearly(const TurnedGrid& grid, std::uint8_t fill, const Image& source, Image& target) {
  const std::int64_t channels = source.channels();
  const auto border = static_cast<float>(fill);
  for (std::int64_t y = 0; y < target.height(); ++y) {
    std::uint8_t* pixel = target.row(y);
    for (std::int64_t x = 0; x < target.width(); ++x, pixel += channels) {
      const TurnedGrid::Place place = grid.at(y, x);
      const float above = std::floor(place.y), left_of = std::floor(place.x);
      const float down = place.y - above, right = place.x - left_of;
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
        for (std::size_t corner = 0; corner < 4; ++corner) {
          sum += static_cast<float>(corners[corner][c]) * weights[corner];
        }
        pixel[c] = static_cast<std::uint8_t>(nearest_whole((sum - border) * inside + border));
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
  } else if (interpolation == Resampling::nearest) {
    turn_to_nearest(TurnedGrid(turned, source), fill, source, target);
  } else {
    require_internal(interpolation == Resampling::bilinear, "an image is turned by nearest or bilinear pixels");
    turn_bilinearly(TurnedGrid(turned, source), fill, source, target);
  }
}

}  // namespace trainer
