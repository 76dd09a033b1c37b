#include <catch2/catch.hpp>

#include "tests/datasets/transforms/test_images.h"

using namespace trainer;

namespace {

const std::vector<std::uint8_t> eight_colors{0, 0, 0,   255, 255, 255, 200, 30, 90, 13, 240, 77,
                                             5, 6, 250, 128, 128, 127, 255, 0,  0,  40, 90,  90};

std::vector<int> adjusted(ColorProperty property, double factor) {
  return values_of(transformed(image_of(2, 4, 3, eight_colors), {ColorStep{property, factor}}));
}

}  // namespace

// The numbers are what torchvision 0.29's functions of these names make of the eight colours.
TEST_CASE("Colours are adjusted as torchvision adjusts bytes") {
  CHECK(adjusted(ColorProperty::brightness, 0.35) ==
        std::vector<int>{0, 0, 0, 89, 89, 89, 70, 10, 31, 4, 84, 26, 1, 2, 87, 44, 44, 44, 89, 0, 0, 14, 31, 31});
  CHECK(adjusted(ColorProperty::brightness, 1.8) == std::vector<int>{0,   0,   0,   255, 255, 255, 255, 54,
                                                                     162, 23,  255, 138, 9,   10,  255, 230,
                                                                     230, 228, 255, 0,   0,   72,  162, 162});
  CHECK(adjusted(ColorProperty::contrast, 0.4) == std::vector<int>{60,  60,  60,  162, 162, 162, 140, 72,
                                                                   96,  65,  156, 91,  62,  62,  160, 111,
                                                                   111, 111, 162, 60,  60,  76,  96,  96});
  CHECK(adjusted(ColorProperty::contrast, 1.7) == std::vector<int>{0, 0, 0,   255, 255, 255, 255, 0, 82, 0, 255, 60,
                                                                   0, 0, 255, 147, 147, 145, 255, 0, 0,  0, 82,  82});
  CHECK(adjusted(ColorProperty::saturation, 0) == std::vector<int>{0,   0,   0,   254, 254, 254, 87, 87,
                                                                   87,  153, 153, 153, 33,  33,  33, 127,
                                                                   127, 127, 76,  76,  76,  75,  75, 75});
  CHECK(adjusted(ColorProperty::saturation, 1.6) == std::vector<int>{0,   0,   0,   255, 255, 255, 255, 0,
                                                                     91,  0,   255, 31,  0,   0,   255, 128,
                                                                     128, 126, 255, 0,   0,   18,  99,  99});
  CHECK(adjusted(ColorProperty::hue, -0.5) == std::vector<int>{0,   0,   0, 255, 255, 255, 30, 200, 140, 240, 13, 176,
                                                               250, 249, 5, 127, 127, 128, 0,  255, 255, 90,  40, 40});
  CHECK(adjusted(ColorProperty::hue, -0.23) == std::vector<int>{0,   0,   0,   255, 255, 255, 75,  30,
                                                                200, 240, 218, 13,  5,   250, 156, 128,
                                                                127, 127, 158, 0,   255, 59,  90,  40});
  CHECK(adjusted(ColorProperty::hue, 0.08) == std::vector<int>{0,   0, 0,   255, 255, 255, 200, 51,  30, 13, 240, 186,
                                                               122, 5, 250, 128, 128, 127, 255, 122, 0,  40, 66,  90});
  CHECK(adjusted(ColorProperty::hue, 0.41) == std::vector<int>{0,   0,   0, 255, 255, 255, 30, 200, 48,  182, 13, 240,
                                                               250, 117, 5, 127, 128, 128, 0,  255, 117, 90,  40, 67});
}

TEST_CASE("Grey is torchvision's, in one channel or in three") {
  const Image image = image_of(2, 4, 3, eight_colors);
  const std::vector<int> grey{0, 254, 87, 153, 33, 127, 76, 75};
  CHECK(values_of(transformed(image, {GreyStep{1}})) == grey);
  std::vector<int> repeated;
  for (const int value : grey) repeated.insert(repeated.end(), 3, value);
  CHECK(values_of(transformed(image, {GreyStep{3}})) == repeated);
  CHECK(values_of(transformed(image, {GreyStep{1}, GreyStep{3}})) == repeated);
}

TEST_CASE("A pixel's colour is adjusted alike wherever it stands") {
  const Image image = noise(1, 700, 3, 12);
  for (const TransformStep& step : {TransformStep(ColorStep{ColorProperty::brightness, 1.2}),
                                    TransformStep(ColorStep{ColorProperty::saturation, 0.7}),
                                    TransformStep(ColorStep{ColorProperty::hue, 0.3}), TransformStep(GreyStep{3})}) {
    const Image result = transformed(image, {step});
    for (const std::int64_t begin : {0, 1, 250, 699}) {
      const Region part{0, begin, 1, std::min<std::int64_t>(300, 700 - begin)};
      CHECK(are_same(transformed(copy_of(image, part), {step}), copy_of(result, part)));
    }
  }
}

TEST_CASE("Grey is a weighted sum of the colours, rounded down") {
  const Image image = noise(20, 31, 3, 13);
  const Image grey = transformed(image, {GreyStep{1}});
  int num_wrong = 0;
  for (std::int64_t i = 0; i < grey.num_bytes(); ++i) {
    const std::uint8_t* const pixel = image.row(0) + 3 * i;
    num_wrong += grey.row(0)[i] != (2989 * pixel[0] + 5870 * pixel[1] + 1140 * pixel[2]) / 10000;
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("Alpha is no colour") {
  const Image image = noise(9, 7, 4, 6);
  Image colours;
  colours.reshape(9, 7, 3);
  for (std::int64_t i = 0; i < 63; ++i) std::copy_n(image.row(0) + 4 * i, 3, colours.row(0) + 3 * i);
  for (const TransformStep& step : {TransformStep(ColorStep{ColorProperty::brightness, 1.4}),
                                    TransformStep(ColorStep{ColorProperty::contrast, 0.6}),
                                    TransformStep(ColorStep{ColorProperty::saturation, 1.4}),
                                    TransformStep(ColorStep{ColorProperty::hue, -0.2}), TransformStep(GreyStep{4})}) {
    const Image result = transformed(image, {step});
    const bool is_grey = std::holds_alternative<GreyStep>(step);
    const Image alone = transformed(colours, {is_grey ? TransformStep(GreyStep{3}) : step});
    bool is_same = true;
    for (std::int64_t i = 0; i < 63; ++i) {
      is_same = is_same && std::equal(alone.row(0) + 3 * i, alone.row(0) + 3 * i + 3, result.row(0) + 4 * i) &&
                result.row(0)[4 * i + 3] == image.row(0)[4 * i + 3];
    }
    CHECK(is_same);
  }
}

TEST_CASE("A grey image is made brighter and of more contrast, and has neither saturation nor hue") {
  const Image image = image_of(1, 4, 1, {0, 100, 200, 255});
  CHECK(values_of(transformed(image, {ColorStep{ColorProperty::brightness, 1.5}})) ==
        std::vector<int>{0, 150, 255, 255});
  // Half of each and of the mean, 138.75.
  CHECK(values_of(transformed(image, {ColorStep{ColorProperty::contrast, 0.5}})) ==
        std::vector<int>{69, 119, 169, 196});
  CHECK(are_same(transformed(image, {ColorStep{ColorProperty::saturation, 0.5}, ColorStep{ColorProperty::hue, 0.5}}),
                 image));
}
