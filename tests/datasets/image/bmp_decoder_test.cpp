#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

namespace {

using BmpPixel = std::function<std::uint32_t(std::int64_t y, std::int64_t x)>;

std::uint32_t made_up_pixel(std::int64_t y, std::int64_t x) {
  return static_cast<std::uint32_t>((y * 31 + x + 1) * 2654435761U);
}

BmpPixel pixels_of_bits(unsigned bits) {
  return [bits](std::int64_t y, std::int64_t x) {
    return static_cast<std::uint32_t>(std::uint64_t{made_up_pixel(y, x)} & ((std::uint64_t{1} << bits) - 1));
  };
}

/// Checks the whole and a region of `file` against what a pixel's red, green, blue and alpha are to be.
void check_bmp(const Bytes& file, Pair size, std::int64_t stored_channels, std::int64_t channels,
               const std::function<std::array<std::uint32_t, 4>(std::int64_t y, std::int64_t x)>& colour) {
  ImageDecoder decoder(many_pixels);
  CHECK(decoder.read_header(file, "picture").size == size);
  CHECK(decoder.read_header(file, "picture").channels == stored_channels);
  Image expected;
  expected.reshape(size[0], size[1], channels);
  for (std::int64_t y = 0; y < size[0]; ++y) {
    for (std::int64_t x = 0; x < size[1]; ++x) {
      for (std::int64_t channel = 0; channel < channels; ++channel)
        expected.row(y)[x * channels + channel] =
            static_cast<std::uint8_t>(colour(y, x)[static_cast<std::size_t>(channel)]);
    }
  }
  Image image;
  decoder.decode(file, "picture", {.channels = channels}, image);
  CHECK(is_same(image, expected));
  const Region region{size[0] / 3, size[1] / 2, (size[0] + 1) / 2, (size[1] + 1) / 2};
  const DecodedPlace place = decoder.decode(file, "picture", {.channels = channels, .region = region}, image);
  CHECK(place.top == region.top);
  CHECK(place.left == region.left);
  CHECK(image.size() == Pair{region.height, region.width});
  CHECK(is_part_of(image, place, expected));
}

}  // namespace

TEST_CASE("a BMP's colours are read from the bottom or the top, whole and by region") {
  for (const Pair size : {Pair{1, 1}, Pair{5, 3}, Pair{12, 31}}) {
    for (const bool from_top : {false, true}) {
      const BmpPixel full = pixels_of_bits(24);
      const auto colour = [&](std::int64_t y, std::int64_t x) {
        const std::uint32_t pixel = full(y, x);
        return std::array{pixel >> 16, pixel >> 8 & 255, pixel & 255, 255U};
      };
      for (const std::int64_t channels : {3, 4}) {
        check_bmp(make_bmp(size[0], size[1], {.bits = 24, .from_top = from_top}, full), size, 3, channels, colour);
        // The fourth byte is nothing unless a field is named for it.
        check_bmp(make_bmp(size[0], size[1], {.bits = 32, .from_top = from_top}, pixels_of_bits(32)), size, 3, channels,
                  [&](std::int64_t y, std::int64_t x) {
                    const std::uint32_t pixel = made_up_pixel(y, x);
                    return std::array{pixel >> 16 & 255, pixel >> 8 & 255, pixel & 255, 255U};
                  });
      }
    }
  }
}

TEST_CASE("a BMP's bit fields are scaled to bytes") {
  const Pair size{7, 9};
  const BmpPixel pixel16 = pixels_of_bits(16), pixel32 = pixels_of_bits(32);
  // 5 bits each where nothing else is said.
  check_bmp(make_bmp(7, 9, {.bits = 16}, pixel16), size, 3, 3, [&](std::int64_t y, std::int64_t x) {
    const std::uint32_t pixel = pixel16(y, x);
    return std::array{(pixel >> 10 & 31) * 255 / 31, (pixel >> 5 & 31) * 255 / 31, (pixel & 31) * 255 / 31, 255U};
  });
  check_bmp(make_bmp(7, 9, {.bits = 16, .fields = {0xf800, 0x07e0, 0x001f}}, pixel16), size, 3, 3,
            [&](std::int64_t y, std::int64_t x) {
              const std::uint32_t pixel = pixel16(y, x);
              return std::array{(pixel >> 11) * 255 / 31, (pixel >> 5 & 63) * 255 / 63, (pixel & 31) * 255 / 31, 255U};
            });
  check_bmp(make_bmp(7, 9, {.bits = 32, .header_bytes = 124, .fields = {0xff, 0xff00, 0xff0000, 0xff000000}}, pixel32),
            size, 4, 4, [&](std::int64_t y, std::int64_t x) {
              const std::uint32_t pixel = pixel32(y, x);
              return std::array{pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255, pixel >> 24};
            });
  // Of more than 8 bits the upper ones.
  check_bmp(make_bmp(7, 9, {.bits = 32, .fields = {0x3ff00000, 0x000ffc00, 0x000003ff}}, pixel32), size, 3, 3,
            [&](std::int64_t y, std::int64_t x) {
              const std::uint32_t pixel = pixel32(y, x);
              return std::array{pixel >> 22 & 255, pixel >> 12 & 255, pixel >> 2 & 255, 255U};
            });
}

TEST_CASE("a BMP's palette gives its colours, and its indices are a mask") {
  ImageDecoder decoder(many_pixels);
  for (const unsigned bits : {1U, 4U, 8U}) {
    for (const std::uint32_t header_bytes : {12U, 40U}) {
      BmpMaking making{.bits = bits, .header_bytes = header_bytes};
      for (std::uint32_t i = 0; i < 1U << bits; ++i) making.palette.push_back((i * 0x10307 + 0x112233) & 0xffffff);
      const BmpPixel index = pixels_of_bits(bits);
      const Bytes file = make_bmp(6, 11, making, index);
      CAPTURE(bits, header_bytes);
      check_bmp(file, {6, 11}, 3, 3, [&](std::int64_t y, std::int64_t x) {
        const std::uint32_t colour = making.palette[index(y, x)];
        return std::array{colour >> 16, colour >> 8 & 255, colour & 255, 255U};
      });
      Image mask;
      decoder.decode_mask(file, "picture", mask);
      REQUIRE(mask.size() == Pair{6, 11});
      for (std::int64_t y = 0; y < 6; ++y) {
        for (std::int64_t x = 0; x < 11; ++x) CHECK(mask.row(y)[x] == index(y, x));
      }
    }
  }
  BmpMaking grey{.bits = 8};
  for (std::uint32_t i = 0; i < 256; ++i) grey.palette.push_back(i * 0x10101);
  const BmpPixel value = pixels_of_bits(8);
  check_bmp(make_bmp(6, 11, grey, value), {6, 11}, 1, 1, [&](std::int64_t y, std::int64_t x) {
    return std::array{value(y, x), 0U, 0U, 0U};
  });
}

TEST_CASE("a BMP that is compressed, cut off or damaged is refused") {
  ImageDecoder decoder(many_pixels);
  const BmpPixel pixel = pixels_of_bits(8);
  BmpMaking making{.bits = 8, .palette = std::vector<std::uint32_t>(256)};
  const Bytes file = make_bmp(9, 7, making, pixel);
  CHECK(refusal_of_image(decoder, file).empty());
  for (std::size_t size = 1; size < file.size() - 1; size += 5)
    CHECK(refusal_of_image(decoder, std::span(file).first(size)).starts_with("picture: "));
  CHECK(refusal_of_image(decoder, std::span(file).first(file.size() - 2)) ==
        "picture: the file ends before the image does");
  CHECK(refusal_of_mask(decoder, std::span(file).first(file.size() - 2)) ==
        "picture: the file ends before the image does");
  making.compression = 1;
  CHECK(refusal_of_image(decoder, make_bmp(9, 7, making, pixel)).find("run lengths (RLE)") != std::string::npos);
  making.compression = 4;
  CHECK(refusal_of_image(decoder, make_bmp(9, 7, making, pixel)).find("compression 4") != std::string::npos);
  making = {.bits = 8, .palette = std::vector<std::uint32_t>(3)};
  CHECK(refusal_of_image(decoder, make_bmp(9, 7, making, pixel)).find("of a palette of 3") != std::string::npos);
  CHECK(refusal_of_image(decoder, make_bmp(0, 7, {}, pixel)).find("0×7 pixels") != std::string::npos);
  CHECK(refusal_of_image(decoder, make_bmp(9, 7, {.header_bytes = 41}, pixel)).empty());
  CHECK(refusal_of_image(decoder, make_bmp(9, 7, {.header_bytes = 200}, pixel)).find("200 bytes") != std::string::npos);
  CHECK(refusal_of_mask(decoder, make_bmp(9, 7, {}, pixel)).starts_with("picture: a BMP of colours cannot be a mask"));
}
