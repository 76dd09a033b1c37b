#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "tests/datasets/transforms/test_images.h"

using namespace trainer;

namespace {

/// Pixels 0, 1, 2, … of one channel, row by row.
Image counted(std::int64_t height, std::int64_t width) {
  Image image;
  image.reshape(height, width, 1);
  std::uint8_t next = 0;
  for (std::uint8_t& value : image.pixels()) value = next++;
  return image;
}

/// `image` with one more pixel on each side, taken from a list of them.
Image with_border_of_one(const Image& image, PadMode mode, std::uint8_t fill) {
  Image padded;
  padded.reshape(image.height() + 2, image.width() + 2, 1);
  const auto inner = [&](std::int64_t i, std::int64_t size) -> std::int64_t {
    if (i == 0) return mode == PadMode::reflect ? std::min<std::int64_t>(1, size - 1) : 0;
    if (i == size + 1) return mode == PadMode::reflect ? std::max<std::int64_t>(size - 2, 0) : size - 1;
    return i - 1;
  };
  for (std::int64_t y = 0; y < padded.height(); ++y) {
    for (std::int64_t x = 0; x < padded.width(); ++x) {
      const bool is_border = y == 0 || x == 0 || y == padded.height() - 1 || x == padded.width() - 1;
      padded.row(y)[x] =
          is_border && mode == PadMode::zeros ? fill : image.row(inner(y, image.height()))[inner(x, image.width())];
    }
  }
  return padded;
}

}  // namespace

TEST_CASE("A crop shows the border that its mode says") {
  for (const Pair size : {Pair{3, 4}, Pair{1, 5}, Pair{2, 1}}) {
    const Image image = counted(size[0], size[1]);
    for (const PadMode mode : {PadMode::zeros, PadMode::reflect, PadMode::replicate}) {
      const Image padded = with_border_of_one(image, mode, 77);
      for (std::int64_t top = -1; top < size[0]; ++top) {
        for (std::int64_t left = -1; left < size[1]; ++left) {
          for (std::int64_t height = 1; top + height <= size[0] + 1; ++height) {
            for (std::int64_t width = 1; left + width <= size[1] + 1; ++width) {
              const Image result = transformed(image, {CropStep{{top, left, height, width}, mode, 77}});
              CHECK(are_same(result, copy_of(padded, {top + 1, left + 1, height, width})));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("A wide border is mirrored again and again") {
  const Image image = counted(1, 3);
  CHECK(values_of(transformed(image, {CropStep{{0, -6, 1, 14}, PadMode::reflect}})) ==
        std::vector<int>{2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1});
  CHECK(values_of(transformed(image, {CropStep{{-1, 5, 2, 2}, PadMode::replicate}})) == std::vector<int>{2, 2, 2, 2});
  CHECK(values_of(transformed(image, {CropStep{{0, 5, 1, 2}, PadMode::zeros, 9}})) == std::vector<int>{9, 9});
}

TEST_CASE("A flip exchanges the ends, and twice is none") {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const Pair size : {Pair{1, 1}, Pair{4, 3}, Pair{5, 8}, Pair{2, 6}, Pair{2, 7}, Pair{1, 11}, Pair{1, 16},
                            Pair{2, 224}, Pair{1, 1023}, Pair{1, 1024}, Pair{1, 1025}}) {
      const Image image = noise(size[0], size[1], channels, 3);
      for (const FlipDirection direction : {FlipDirection::horizontal, FlipDirection::vertical}) {
        const Image once = transformed(image, {FlipStep{direction}});
        const bool is_across = direction == FlipDirection::horizontal;
        bool is_mirrored = true;
        for (std::int64_t y = 0; y < size[0]; ++y) {
          for (std::int64_t x = 0; x < image.row_bytes(); ++x) {
            const std::int64_t column = is_across ? (size[1] - 1 - x / channels) * channels + x % channels : x;
            is_mirrored = is_mirrored && once.row(y)[x] == image.row(is_across ? y : size[0] - 1 - y)[column];
          }
        }
        CHECK(is_mirrored);
        CHECK(are_same(transformed(once, {FlipStep{direction}}), image));
      }
    }
  }
}

TEST_CASE("A quarter turn is counter-clockwise and exact") {
  const Image image = image_of(2, 2, 1, {1, 2, 3, 4});
  for (const Resampling interpolation : {Resampling::nearest, Resampling::bilinear}) {
    CHECK(values_of(transformed(image, {RotateStep{90, interpolation}})) == std::vector<int>{2, 4, 1, 3});
    CHECK(values_of(transformed(image, {RotateStep{-90, interpolation}})) == std::vector<int>{3, 1, 4, 2});
    CHECK(values_of(transformed(image, {RotateStep{540, interpolation}})) == std::vector<int>{4, 3, 2, 1});
    const Image wide = noise(3, 5, 3, 8);
    CHECK(are_same(transformed(wide, {RotateStep{180, interpolation}, RotateStep{180, interpolation}}), wide));
  }
}

TEST_CASE("A turned pixel shows what lies at its place turned back") {
  for (const Pair size : {Pair{1, 1}, Pair{24, 37}, Pair{40, 17}, Pair{9, 300}}) {
    for (const double degrees : {3.0, -33.3, 100.0, 271.5}) {
      CAPTURE(size[0], size[1], degrees);
      const Image image = noise(size[0], size[1], 3, 11);
      const Image nearest = transformed(image, {RotateStep{degrees, Resampling::nearest, 50}});
      const Image bilinear = transformed(image, {RotateStep{degrees, Resampling::bilinear, 50}});
      const double angle = degrees * std::numbers::pi / 180;
      int num_wrong = 0, num_inside = 0;
      for (std::int64_t y = 0; y < size[0]; ++y) {
        for (std::int64_t x = 0; x < size[1]; ++x) {
          // Up is positive here, so that the turn back by `angle` is clockwise.
          const double right = static_cast<double>(x) - static_cast<double>(size[1] - 1) / 2;
          const double up = static_cast<double>(size[0] - 1) / 2 - static_cast<double>(y);
          const double column = right * std::cos(angle) + up * std::sin(angle) + static_cast<double>(size[1] - 1) / 2;
          const double row = static_cast<double>(size[0] - 1) / 2 - (up * std::cos(angle) - right * std::sin(angle));
          const auto value_at = [&](std::int64_t r, std::int64_t c) -> double {
            return r < 0 || c < 0 || r >= size[0] || c >= size[1] ? 50 : image.row(r)[3 * c];
          };
          const double to_edge =
              std::min(std::abs(row - std::floor(row) - 0.5), std::abs(column - std::floor(column) - 0.5));
          if (to_edge > 1e-4) {
            num_wrong += nearest.row(y)[3 * x] != value_at(std::lround(row), std::lround(column));
          }
          const auto top = static_cast<std::int64_t>(std::floor(row)),
                     left = static_cast<std::int64_t>(std::floor(column));
          if (top < 0 || left < 0 || top + 1 >= size[0] || left + 1 >= size[1]) continue;
          ++num_inside;
          const double down = row - std::floor(row), across = column - std::floor(column);
          const double expected =
              (1 - down) * ((1 - across) * value_at(top, left) + across * value_at(top, left + 1)) +
              down * ((1 - across) * value_at(top + 1, left) + across * value_at(top + 1, left + 1));
          num_wrong += std::abs(bilinear.row(y)[3 * x] - expected) > 0.51;
        }
      }
      CHECK(num_wrong == 0);
      CHECK((num_inside > 0) == (size[0] > 1));
    }
  }
}

TEST_CASE("A region is erased in every channel and nothing beside it") {
  const Image image = noise(5, 6, 3, 2);
  const Image result = transformed(image, {EraseStep{{1, 2, 3, 2}, 9}});
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 18; ++x) {
      const bool is_erased = y >= 1 && y < 4 && x >= 6 && x < 12;
      CHECK(result.row(y)[x] == (is_erased ? 9 : image.row(y)[x]));
    }
  }
}

TEST_CASE("A mask follows the geometry by whole pixels, and colours leave it") {
  const Image mask = noise(23, 31, 1, 4);
  // What is done to a mask is what is done to an image of one channel whose border is `outside`.
  const std::vector<std::vector<TransformStep>> geometries{
      {CropStep{{3, 2, 11, 20}}},
      {CropStep{{-3, -2, 40, 20}, PadMode::zeros, 200}},
      {CropStep{{-3, -2, 40, 20}, PadMode::reflect, 200}},
      {CropStep{{2, 3, 15, 17}}, ResizeStep{{20, 9}, Resampling::nearest}, FlipStep{}},
      {RotateStep{25, Resampling::nearest, 200}, FlipStep{FlipDirection::vertical}},
      {EraseStep{{2, 3, 5, 6}, 200}},
  };
  for (const auto& steps : geometries) CHECK(are_same(transformed_mask(mask, steps, 200), transformed(mask, steps)));

  // However the image is resampled, the mask's pixel is one that was there.
  for (const Resampling interpolation : {Resampling::bilinear, Resampling::bicubic}) {
    const std::vector<TransformStep> smooth{ResizeStep{{50, 9}, interpolation}, RotateStep{9, Resampling::bilinear, 1}};
    const std::vector<TransformStep> nearest{ResizeStep{{50, 9}, Resampling::nearest},
                                             RotateStep{9, Resampling::nearest, 200}};
    CHECK(are_same(transformed_mask(mask, smooth, 200), transformed(mask, nearest)));
  }
  CHECK(are_same(
      transformed_mask(
          mask, {ColorStep{ColorProperty::brightness, 0.3}, ColorStep{ColorProperty::hue, 0.3}, GreyStep{1}}, 200),
      mask));
}
