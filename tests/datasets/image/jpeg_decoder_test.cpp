#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

namespace {

Image flat_image(std::vector<std::uint8_t> pixel, std::int64_t height = 19, std::int64_t width = 21) {
  Image image;
  image.reshape(height, width, static_cast<std::int64_t>(pixel.size()));
  for (std::size_t i = 0; i < image.pixels().size(); ++i) image.pixels()[i] = pixel[i % pixel.size()];
  return image;
}

Image decoded(ImageDecoder& decoder, const Bytes& file, std::int64_t channels = 3) {
  Image image;
  decoder.decode(file, "picture", {.channels = channels}, image);
  return image;
}

int largest_difference(const Image& a, const Image& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE(a.channels() == b.channels());
  int most = 0;
  for (std::size_t i = 0; i < a.pixels().size(); ++i)
    most = std::max(most, std::abs(int{a.pixels()[i]} - int{b.pixels()[i]}));
  return most;
}

/// Every way to store that takes another way through the decoder.
std::vector<JpegMaking> jpeg_makings() {
  std::vector<JpegMaking> makings;
  for (const bool progressive : {false, true}) {
    for (const auto& [horizontal, vertical] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}})
      makings.push_back({.quality = 80,
                         .progressive = progressive,
                         .horizontal_sampling = horizontal,
                         .vertical_sampling = vertical,
                         .restart_blocks = vertical == 2 ? 3U : 0U});
  }
  return makings;
}

/// Without the segments of one kind.
Bytes without_segments(const Bytes& jpeg, int marker) {
  Bytes file(jpeg.begin(), jpeg.begin() + 2);
  std::size_t at = 2;
  while (std::to_integer<int>(jpeg[at + 1]) != 0xda) {
    const std::size_t length =
        std::to_integer<std::size_t>(jpeg[at + 2]) << 8 | std::to_integer<std::size_t>(jpeg[at + 3]);
    const auto segment = std::span(jpeg).subspan(at, 2 + length);
    if (std::to_integer<int>(segment[1]) != marker) append(file, segment);
    at += 2 + length;
  }
  append(file, std::span(jpeg).subspan(at));
  return file;
}

}  // namespace

TEST_CASE("a JPEG of one colour has that colour, however it is stored") {
  ImageDecoder decoder(many_pixels);
  for (const bool progressive : {false, true}) {
    CHECK(largest_difference(decoded(decoder, make_jpeg(flat_image({200, 30, 77}), {.progressive = progressive})),
                             flat_image({200, 30, 77})) <= 1);
    const Bytes grey = make_jpeg(flat_image({93}), {.progressive = progressive});
    CHECK(largest_difference(decoded(decoder, grey, 1), flat_image({93})) <= 1);
    CHECK(largest_difference(decoded(decoder, grey, 3), flat_image({93, 93, 93})) <= 1);
    CHECK(largest_difference(decoded(decoder, grey, 4), flat_image({93, 93, 93, 255})) <= 1);
    // Adobe's programs store 255 for no ink: the paper's light times the inks'.
    for (const bool stores_ycck : {false, true}) {
      const Bytes inks =
          make_jpeg(flat_image({255, 128, 40, 200}), {.progressive = progressive, .stores_ycck = stores_ycck});
      CHECK(largest_difference(decoded(decoder, inks), flat_image({200, 100, 31})) <= 2);
      CHECK(largest_difference(decoded(decoder, inks, 4), flat_image({200, 100, 31, 255})) <= 2);
    }
    // 0.299 · 200 + 0.587 · 30 + 0.114 · 77
    const Bytes colour = make_jpeg(flat_image({200, 30, 77}), {.progressive = progressive});
    CHECK(largest_difference(decoded(decoder, colour, 1), flat_image({86})) <= 1);
    CHECK(largest_difference(decoded(decoder, colour, 4), flat_image({200, 30, 77, 255})) <= 1);
  }
}

TEST_CASE("a JPEG decodes as libjpeg with memory of its own decodes it") {
  ImageDecoder decoder(many_pixels);
  for (const Pair size : {Pair{1, 1}, Pair{3, 2}, Pair{37, 53}}) {
    for (const JpegMaking& making : jpeg_makings()) {
      const Bytes file = make_jpeg(smooth_image(size[0], size[1], 3), making);
      CHECK(is_same(decoded(decoder, file), decode_plainly(file, 3)));
      const Bytes grey = make_jpeg(smooth_image(size[0], size[1], 1), making);
      CHECK(is_same(decoded(decoder, grey, 1), decode_plainly(grey, 1)));
    }
  }
}

TEST_CASE("a region of a JPEG holds what the whole does there, at every scale") {
  ImageDecoder decoder(many_pixels);
  const Image image = smooth_image(75, 101, 3);
  const std::vector<Region> regions = {{0, 0, 75, 101}, {0, 0, 1, 1},     {74, 100, 1, 1}, {16, 32, 16, 16},
                                       {7, 3, 31, 60},  {33, 47, 42, 54}, {31, 0, 2, 101}, {0, 15, 75, 3}};
  int num_reduced = 0;
  for (const JpegMaking& making : jpeg_makings()) {
    const Bytes file = make_jpeg(image, making);
    for (const int reduction : {1, 2, 4, 8}) {
      for (const Region& region : regions) {
        for (const std::int64_t channels : {1, 3, 4}) {
          DecodeRequest request{.channels = channels, .region = region};
          if (reduction > 1) request.wanted_size = {region.height / reduction / 2, region.width / reduction / 2};
          Image part, whole;
          const DecodedPlace place = decoder.decode(file, "picture", request, part);
          request.region = {};
          request.wanted_size = {};
          if (place.reduction > 1) request.wanted_size = {75 / place.reduction / 2, 101 / place.reduction / 2};
          const DecodedPlace all = decoder.decode(file, "picture", request, whole);
          num_reduced += place.reduction > 1 ? 1 : 0;
          CAPTURE(region.top, region.left, reduction, channels, making.horizontal_sampling, making.vertical_sampling,
                  making.progressive);
          REQUIRE(all.reduction == place.reduction);
          REQUIRE(is_part_of(part, place, whole));
          REQUIRE(place.top <= region.top);
          REQUIRE(place.left <= region.left);
          REQUIRE(place.top + part.height() * place.reduction >= region.top + region.height);
          REQUIRE(place.left + part.width() * place.reduction >= region.left + region.width);
          if (channels == 3) REQUIRE(is_same(whole, decode_plainly(file, 3, static_cast<unsigned>(all.reduction))));
        }
      }
    }
  }
  CHECK(num_reduced > 100);
}

TEST_CASE("a JPEG is decoded smaller only where twice of what is wanted is left") {
  ImageDecoder decoder(many_pixels);
  const Bytes file = make_jpeg(smooth_image(96, 160, 3));
  const auto reduction_of = [&](Pair wanted, const Region& region = {}) {
    Image image;
    const DecodedPlace place = decoder.decode(file, "picture", {.region = region, .wanted_size = wanted}, image);
    const Pair size = region.height == 0 ? Pair{96, 160} : Pair{region.height, region.width};
    CHECK((place.reduction == 1 || image.height() >= 2 * wanted[0]));
    CHECK((place.reduction == 1 || image.width() >= 2 * wanted[1]));
    CHECK(image.height() * place.reduction >= size[0]);
    return place.reduction;
  };
  CHECK(reduction_of({0, 0}) == 1);
  CHECK(reduction_of({96, 160}) == 1);
  CHECK(reduction_of({25, 40}) == 1);
  CHECK(reduction_of({24, 41}) == 1);
  CHECK(reduction_of({24, 40}) == 2);
  CHECK(reduction_of({12, 20}) == 4);
  CHECK(reduction_of({6, 10}) == 8);
  CHECK(reduction_of({1, 1}) == 8);
  CHECK(reduction_of({12, 20}, {40, 40, 48, 80}) == 2);
  CHECK(reduction_of({12, 20}, {40, 40, 47, 80}) == 1);
}

TEST_CASE("a JPEG that is cut off, damaged or of too many scans is refused") {
  ImageDecoder decoder(many_pixels);
  for (const bool progressive : {false, true}) {
    const Bytes file = make_jpeg(smooth_image(40, 40, 3), {.progressive = progressive});
    REQUIRE(refusal_of_image(decoder, file).empty());
    for (std::size_t size = 1; size < file.size(); size += 7)
      CHECK(refusal_of_image(decoder, std::span(file).first(size)).starts_with("picture: "));
    CHECK(refusal_of_image(decoder, std::span(file).first(file.size() - 2)) ==
          "picture: the file ends before the image does");
  }
  CHECK(refusal_of_image(decoder, make_jpeg(smooth_image(40, 40, 3), {.scan_each_frequency = true})) ==
        "picture: a JPEG of more than 100 scans, which no photograph needs");
  CHECK(refusal_of_image(decoder, make_jpeg(smooth_image(40, 40, 1), {.scan_each_frequency = true})).empty());

  // A marker in the midst of the pixels.
  Bytes damaged = make_jpeg(smooth_image(40, 40, 3));
  damaged[damaged.size() - 40] = std::byte{0xff};
  damaged[damaged.size() - 39] = std::byte{0xd9};
  CHECK(refusal_of_image(decoder, damaged).find("premature end of data segment") != std::string::npos);
  // The decoder serves on.
  CHECK(refusal_of_image(decoder, make_jpeg(smooth_image(40, 40, 3))).empty());
}

TEST_CASE("bytes between the segments of a JPEG and behind it do no harm") {
  ImageDecoder decoder(many_pixels);
  const Bytes file = make_jpeg(smooth_image(40, 40, 3));
  Bytes padded(file.begin(), file.end() - 2);
  append(padded, bytes_of("abc"));
  append(padded, std::span(file).last(2));
  append(padded, bytes_of("behind"));
  CHECK(is_same(decoded(decoder, padded), decoded(decoder, file)));
}

TEST_CASE("a JPEG without tables is not decoded with those of the one before") {
  ImageDecoder decoder(many_pixels);
  const Bytes file = make_jpeg(smooth_image(40, 40, 3));
  REQUIRE(refusal_of_image(decoder, file).empty());
  constexpr int quantization_tables = 0xdb;
  CHECK(refusal_of_image(decoder, without_segments(file, quantization_tables)).find("table") != std::string::npos);
}

TEST_CASE("EXIF's orientation turns a JPEG, its regions and its scaled images upright") {
  ImageDecoder decoder(many_pixels);
  const Bytes stored_file = make_jpeg(smooth_image(37, 58, 3));
  const Image stored = decode_plainly(stored_file, 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const Bytes file = with_exif(stored_file, orientation);
    // TIFF 6.0, tag 274: which side of the scene the stored 0th row and 0th column are.
    const std::string row_side = std::vector<std::string>{
        "top", "top", "bottom", "bottom", "left", "right", "right", "left"}[static_cast<std::size_t>(orientation - 1)];
    const std::string column_side = std::vector<std::string>{
        "left", "right", "right", "left", "top", "top", "bottom", "bottom"}[static_cast<std::size_t>(orientation - 1)];
    Image expected;
    const bool exchanged = orientation >= 5;
    expected.reshape(exchanged ? 58 : 37, exchanged ? 37 : 58, 3);
    for (std::int64_t row = 0; row < 37; ++row) {
      for (std::int64_t column = 0; column < 58; ++column) {
        std::int64_t y = 0, x = 0;
        for (const auto& [side, distance] : {std::pair{row_side, row}, {column_side, column}}) {
          if (side == "top") y = distance;
          if (side == "bottom") y = expected.height() - 1 - distance;
          if (side == "left") x = distance;
          if (side == "right") x = expected.width() - 1 - distance;
        }
        std::copy_n(stored.row(row) + 3 * column, 3, expected.row(y) + 3 * x);
      }
    }
    CHECK(decoder.read_header(file, "picture").size == expected.size());
    CHECK(is_same(decoded(decoder, file), expected));
    for (const Region& region :
         {Region{0, 0, 1, 1}, Region{5, 9, 20, 11}, Region{36, 30, 1, 7}, Region{3, 0, 33, 37}}) {
      Image part;
      const DecodedPlace place = decoder.decode(file, "picture", {.region = region}, part);
      CHECK(is_part_of(part, place, expected));
      CHECK((place.top <= region.top && place.top + part.height() >= region.top + region.height));
      CHECK((place.left <= region.left && place.left + part.width() >= region.left + region.width));
    }
    // Each pixel of the scaled image is near the mean of those that it covers.
    Image scaled;
    const DecodedPlace place =
        decoder.decode(file, "picture", {.wanted_size = {expected.height() / 4, expected.width() / 4}}, scaled);
    REQUIRE(place.reduction == 2);
    double difference = 0;
    for (std::int64_t y = 0; y < scaled.height(); ++y) {
      for (std::int64_t x = 0; x < scaled.width(); ++x) {
        double sum = 0, count = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          const std::int64_t from_y = place.top + 2 * y + i / 2, from_x = place.left + 2 * x + i % 2;
          if (from_y < 0 || from_x < 0 || from_y >= expected.height() || from_x >= expected.width()) continue;
          sum += expected.row(from_y)[3 * from_x];
          ++count;
        }
        difference = std::max(difference, std::abs(scaled.row(y)[3 * x] - sum / count));
      }
    }
    CHECK(difference < 6);
  }
}

TEST_CASE("a JPEG is no mask") {
  ImageDecoder decoder(many_pixels);
  CHECK(refusal_of_mask(decoder, make_jpeg(smooth_image(4, 4, 1))).starts_with("picture: a JPEG cannot be a mask"));
}
