#include "datasets/transforms/resize.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/datasets/transforms/test_images.h"

using namespace trainer;

namespace {

/// Every pixel of the axis is weighed by the filter's own definition, in real numbers.
std::vector<double> resized_row(const std::vector<double>& row, std::size_t target, bool is_cubic) {
  const double scale = static_cast<double>(row.size()) / static_cast<double>(target), width = std::max(scale, 1.0);
  std::vector<double> result(target);
  for (std::size_t i = 0; i < target; ++i) {
    double sum = 0, weights = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double x = std::abs((static_cast<double>(j) + 0.5 - (static_cast<double>(i) + 0.5) * scale) / width);
      double weight = 0;
      if (!is_cubic) {
        weight = std::max(0.0, 1 - x);
      } else if (x < 2) {
        weight = x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
      }
      sum += weight * row[j];
      weights += weight;
    }
    result[i] = std::clamp(sum / weights, 0.0, 255.0);
  }
  return result;
}

/// The largest difference between a resize and real numbers that are rounded once between rows and columns.
double error_of_resize(const Image& image, Pair size, bool is_cubic) {
  const Image result = transformed(image, {ResizeStep{size, is_cubic ? Resampling::bicubic : Resampling::bilinear}});
  REQUIRE(result.size() == size);
  double error = 0;
  for (std::int64_t c = 0; c < image.channels(); ++c) {
    std::vector<std::vector<double>> between;
    for (std::int64_t y = 0; y < image.height(); ++y) {
      std::vector<double> row;
      for (std::int64_t x = 0; x < image.width(); ++x) row.push_back(image.row(y)[x * image.channels() + c]);
      between.push_back(resized_row(row, static_cast<std::size_t>(size[1]), is_cubic));
    }
    for (std::int64_t x = 0; x < size[1]; ++x) {
      std::vector<double> column;
      for (const auto& row : between) column.push_back(std::round(row[static_cast<std::size_t>(x)]));
      const auto expected = resized_row(column, static_cast<std::size_t>(size[0]), is_cubic);
      for (std::int64_t y = 0; y < size[0]; ++y) {
        const double value = result.row(y)[x * image.channels() + c];
        error = std::max(error, std::abs(value - expected[static_cast<std::size_t>(y)]));
      }
    }
  }
  return error;
}

}  // namespace

TEST_CASE("A resized pixel is the filter's weighted mean, but for rounding") {
  struct Sizes {
    Pair from, to;
  };
  const std::vector<Sizes> sizes{{{1, 1}, {5, 7}},     {{7, 5}, {1, 1}},     {{33, 47}, {20, 13}},
                                 {{20, 13}, {33, 47}}, {{211, 3}, {2, 3}},   {{3, 211}, {64, 2}},
                                 {{40, 30}, {40, 31}}, {{31, 40}, {30, 40}}, {{64, 64}, {32, 32}}};
  std::uint32_t seed = 0;
  for (const auto& [from, to] : sizes) {
    for (const std::int64_t channels : {1, 3, 4}) {
      CAPTURE(from[0], from[1], to[0], to[1], channels);
      const Image image = noise(from[0], from[1], channels, ++seed);
      // Half a level of the last rounding; one of the first may go the other way where it is near a half.
      CHECK(error_of_resize(image, to, false) < 1.1);
      CHECK(error_of_resize(image, to, true) < 1.6);
    }
  }
}

TEST_CASE("A constant image stays constant when it is resized") {
  for (const int value : {0, 1, 127, 254, 255}) {
    Image image;
    image.reshape(37, 23, 3);
    std::ranges::fill(image.pixels(), static_cast<std::uint8_t>(value));
    for (const Resampling interpolation : {Resampling::nearest, Resampling::bilinear, Resampling::bicubic}) {
      for (const Pair size : {Pair{5, 64}, Pair{100, 11}, Pair{1, 1}}) {
        const Image result = transformed(image, {ResizeStep{size, interpolation}});
        CHECK(std::ranges::all_of(result.pixels(), [&](std::uint8_t pixel) { return pixel == value; }));
      }
    }
  }
}

TEST_CASE("A channel is resized as it would be alone") {
  for (const std::int64_t channels : {2, 3, 4}) {
    for (const Pair from : {Pair{1, 1}, Pair{2, 1}, Pair{3, 2}, Pair{30, 41}}) {
      const Image image = noise(from[0], from[1], channels, 5);
      for (const Pair to : {Pair{1, 2}, Pair{7, 6}, Pair{19, 27}, Pair{61, 90}}) {
        for (const Resampling interpolation : {Resampling::nearest, Resampling::bilinear, Resampling::bicubic}) {
          const std::vector<TransformStep> steps{ResizeStep{to, interpolation}};
          const Image together = transformed(image, steps);
          for (std::int64_t c = 0; c < channels; ++c) {
            Image one;
            one.reshape(from[0], from[1], 1);
            for (std::int64_t i = 0; i < one.num_bytes(); ++i) one.row(0)[i] = image.row(0)[i * channels + c];
            const Image alone = transformed(one, steps);
            bool is_same = true;
            for (std::int64_t i = 0; i < alone.num_bytes(); ++i) {
              is_same = is_same && alone.row(0)[i] == together.row(0)[i * channels + c];
            }
            CHECK(is_same);
          }
        }
      }
    }
  }
}

TEST_CASE("The nearest pixel is the one at the rounded-down place of the corner") {
  for (const std::int64_t from : {1, 2, 5, 47, 300}) {
    for (const std::int64_t to : {1, 2, 3, 10, 94, 224}) {
      CAPTURE(from, to);
      // Each pixel says where it is: in its row and in its column.
      Image image;
      image.reshape(from, from, 4);
      for (std::int64_t y = 0; y < from; ++y) {
        for (std::int64_t x = 0; x < from; ++x) {
          std::uint8_t* const pixel = image.row(y) + 4 * x;
          pixel[0] = static_cast<std::uint8_t>(y);
          pixel[1] = static_cast<std::uint8_t>(y >> 8);
          pixel[2] = static_cast<std::uint8_t>(x);
          pixel[3] = static_cast<std::uint8_t>(x >> 8);
        }
      }
      const Image result = transformed(image, {ResizeStep{{to, to}, Resampling::nearest}});
      const auto is_expected = [&](std::int64_t found, std::int64_t i) {
        const std::int64_t exact = i * from / to;
        // Single precision may fall short of a whole number.
        return found == exact || (i * from % to == 0 && found == exact - 1);
      };
      bool all_expected = true;
      for (std::int64_t y = 0; y < to; ++y) {
        for (std::int64_t x = 0; x < to; ++x) {
          const std::uint8_t* const pixel = result.row(y) + 4 * x;
          all_expected =
              all_expected && is_expected(pixel[0] + 256 * pixel[1], y) && is_expected(pixel[2] + 256 * pixel[3], x);
        }
      }
      CHECK(all_expected);
    }
  }
}
