#include <array>
#include <catch2/catch.hpp>

#include "engine/report/data/contact_sheet.h"
#include "engine/report/data/glyphs.h"

using namespace trainer;

namespace {

using Colour = std::array<int, 3>;

Colour colour_of(const Image& image, std::int64_t y, std::int64_t x) {
  const std::uint8_t* pixel = image.row(y) + x * 3;
  return {pixel[0], pixel[1], pixel[2]};
}

ShownSample shown(std::int64_t height, std::int64_t width, std::int64_t channels, std::vector<std::uint8_t> values) {
  ShownSample sample;
  sample.image.reshape(height, width, channels);
  std::copy(values.begin(), values.end(), sample.image.pixels().begin());
  return sample;
}

template <class... Samples>
std::vector<ShownSample> samples_of(Samples... samples) {
  std::vector<ShownSample> all;
  (all.push_back(std::move(samples)), ...);
  return all;
}

const Colour white = {255, 255, 255}, black = {0, 0, 0};

std::int64_t num_black_below(const Image& sheet, std::int64_t top) {
  std::int64_t count = 0;
  for (std::int64_t y = top; y < sheet.height(); ++y)
    for (std::int64_t x = 0; x < sheet.width(); ++x) count += colour_of(sheet, y, x) == black ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("small samples are enlarged by a whole factor, and stand side by side with their labels below") {
  ShownSample first = shown(2, 2, 1, {10, 20, 30, 40}), second = shown(2, 2, 1, {50, 60, 70, 80});
  first.label = "cat";
  const Image sheet = contact_sheet(samples_of(std::move(first), std::move(second)), {"cat", "dog"});
  constexpr std::int64_t margin = 6, side = 128;
  CHECK(sheet.width() == 2 * (side + margin) + margin);
  CHECK(colour_of(sheet, 0, 0) == white);
  CHECK(colour_of(sheet, margin, margin) == Colour{10, 10, 10});
  CHECK(colour_of(sheet, margin + side / 2 - 1, margin + side / 2 - 1) == Colour{10, 10, 10});
  CHECK(colour_of(sheet, margin, margin + side / 2) == Colour{20, 20, 20});
  CHECK(colour_of(sheet, margin + side - 1, margin + side - 1) == Colour{40, 40, 40});
  CHECK(colour_of(sheet, margin, 2 * margin + side) == Colour{50, 50, 50});
  // The label is drawn twice as large as its letters are, since it fits so.
  Image letters;
  letters.reshape(glyph_height * 2, 3 * glyph_step * 2, 3);
  std::fill(letters.pixels().begin(), letters.pixels().end(), std::uint8_t{255});
  draw_text(letters, 0, 0, 2, "cat");
  CHECK(num_black_below(sheet, margin + side) == num_black_below(letters, 0));
  CHECK(num_black_below(letters, 0) > 0);
}

TEST_CASE("large samples are reduced to the mean of what a pixel shows") {
  ShownSample sample;
  sample.image.reshape(256, 512, 3);
  for (std::int64_t y = 0; y < 256; ++y)
    for (std::int64_t x = 0; x < 512; ++x)
      for (int c = 0; c < 3; ++c) sample.image.row(y)[x * 3 + c] = static_cast<std::uint8_t>(x % 4 * 40 + c);
  const Image sheet = contact_sheet(samples_of(std::move(sample)), {});
  CHECK(colour_of(sheet, 6, 6) == Colour{60, 61, 62});
  CHECK(sheet.width() == 128 + 2 * 6);
  CHECK(colour_of(sheet, 6 + 63, 6 + 127) == Colour{60, 61, 62});
  CHECK(colour_of(sheet, 6 + 64, 6) == white);
}

TEST_CASE("alpha is laid over grey") {
  const Image sheet = contact_sheet(samples_of(shown(1, 2, 4, {200, 100, 0, 255, 200, 100, 0, 0})), {});
  CHECK(colour_of(sheet, 6, 6) == Colour{200, 100, 0});
  CHECK(colour_of(sheet, 6, 6 + 127) == Colour{128, 128, 128});
}

TEST_CASE("a mask stands beside its image in colours of classes that a legend names, white where it is left out") {
  ShownSample sample = shown(1, 4, 1, {0, 0, 0, 0});
  sample.classes = {0, 1, 2, -100};
  const Image sheet = contact_sheet(samples_of(std::move(sample)), {"ground", "water", "sky"});
  const std::int64_t left = 6 + 128 + 2;
  std::vector<Colour> seen;
  for (int i = 0; i < 4; ++i) seen.push_back(colour_of(sheet, 6, left + 32 * i));
  for (std::int32_t label = 0; label < 3; ++label) {
    const auto colour = colour_of_class(label, 3);
    CHECK(seen[static_cast<std::size_t>(label)] == Colour{colour[0], colour[1], colour[2]});
  }
  CHECK(seen[3] == white);
  CHECK(seen[0] != seen[1]);
  CHECK(seen[1] != seen[2]);
  // The legend: a square of the first class, and its name.
  const std::int64_t legend = 6 + 32 + 6 + 6;
  CHECK(colour_of(sheet, legend, 6) == seen[0]);
  CHECK(num_black_below(sheet, legend) > 20);
}

TEST_CASE("as many classes as there are colours for have different ones") {
  for (const std::int64_t count : {2, 5, 12})
    for (std::int32_t a = 0; a < count; ++a)
      for (std::int32_t b = 0; b < a; ++b) CHECK(colour_of_class(a, count) != colour_of_class(b, count));
}

TEST_CASE("letters are told from each other, and what has none is a box") {
  const auto drawn = [](const std::string& text) {
    Image image;
    image.reshape(glyph_height, glyph_width, 3);
    std::fill(image.pixels().begin(), image.pixels().end(), std::uint8_t{255});
    draw_text(image, 0, 0, 1, text);
    return std::vector<std::uint8_t>(image.pixels().begin(), image.pixels().end());
  };
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;-+=_/()'%&!?*#";
  for (std::size_t i = 0; i < letters.size(); ++i) {
    CHECK(drawn(letters.substr(i, 1)) != drawn("~"));
    for (std::size_t j = 0; j < i; ++j) {
      INFO(letters[i] << letters[j]);
      CHECK(drawn(letters.substr(i, 1)) != drawn(letters.substr(j, 1)));
    }
  }
  CHECK(drawn("é") == drawn("~"));
}
