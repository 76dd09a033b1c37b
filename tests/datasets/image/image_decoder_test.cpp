#include "datasets/image/image_decoder.h"

#include <array>
#include <catch2/catch.hpp>

#include "engine/errors.h"
#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

namespace {

Bytes small_bmp() {
  return make_bmp(5, 7, {}, [](std::int64_t y, std::int64_t x) { return static_cast<std::uint32_t>(y << 8 | x); });
}

}  // namespace

TEST_CASE("an image's format is told by its contents") {
  ImageDecoder decoder(1000);
  const auto format_of = [&](const Bytes& file) {
    const ImageHeader header = decoder.read_header(file, "no.suffix");
    CHECK(header.size == Pair{5, 7});
    return header.format;
  };
  CHECK(format_of(make_jpeg(smooth_image(5, 7, 3))) == ImageFormat::jpeg);
  CHECK(format_of(make_png(patterned_image(5, 7, 3))) == ImageFormat::png);
  CHECK(format_of(make_webp(patterned_image(5, 7, 3))) == ImageFormat::webp);
  CHECK(format_of(small_bmp()) == ImageFormat::bmp);
}

TEST_CASE("a header is read from a file's first bytes, or they are refused") {
  ImageDecoder decoder(1 << 20);
  for (const Bytes& file :
       {make_jpeg(smooth_image(64, 48, 3)), make_png(patterned_image(64, 48, 3)), make_webp(patterned_image(64, 48, 4)),
        make_bmp(64, 48, {}, [](std::int64_t, std::int64_t) { return 5; })}) {
    int num_reaching = 0, num_behind = 0;
    for (std::size_t size = 0; size < 2000 && size < file.size(); size += size < 64 ? 1 : 50) {
      Pair told{0, 0};
      try {
        told = decoder.read_header(std::span(file).first(size), "picture").size;
      } catch (const DataError&) {
        // Once enough is there, more does no harm.
        num_behind += num_reaching;
        continue;
      }
      CHECK(told == Pair{64, 48});
      ++num_reaching;
    }
    CHECK(num_behind == 0);
    CHECK(num_reaching > 0);
  }
}

TEST_CASE("what is no image is named") {
  ImageDecoder decoder(1000);
  CHECK(refusal_of_image(decoder, {}) == "picture: the file is empty");
  CHECK(refusal_of_image(decoder, bytes_of("GIF89a...")) ==
        "picture: no JPEG, PNG, WebP or BMP image: this is a GIF image");
  CHECK(refusal_of_image(decoder, bytes_of("hello")) ==
        "picture: no JPEG, PNG, WebP or BMP image: it begins with 68 65 6c 6c 6f");
}

TEST_CASE("an image of more pixels than are allowed is refused before anything is allocated") {
  const std::array<Bytes, 4> files = {make_jpeg(smooth_image(20, 51, 3)), make_png(patterned_image(20, 51, 3)),
                                      make_webp(patterned_image(20, 51, 3)),
                                      make_bmp(20, 51, {}, [](std::int64_t, std::int64_t) { return 5; })};
  for (const Bytes& file : files) {
    ImageDecoder exactly(20 * 51), fewer(20 * 51 - 1);
    CHECK(refusal_of_image(exactly, file).empty());
    CHECK(refusal_of_image(fewer, file) ==
          "picture: an image of 20×51 pixels, more than the 1019 that data.max_pixels allows");
  }
  // A header that claims all there can be.
  Bytes huge = make_png(patterned_image(20, 51, 3));
  for (std::size_t i = 16; i < 24; ++i) huge[i] = std::byte{0x7f};
  ImageDecoder decoder(1 << 20);
  CHECK(refusal_of_image(decoder, huge).find("2139062143×2139062143 pixels") != std::string::npos);
  CHECK(decoder.capacity() == 0);
}

TEST_CASE("a decoder keeps what it has allocated, and no more than its largest image took") {
  ImageDecoder decoder(1 << 20);
  Image image;
  const auto decode_all = [&](std::int64_t height, std::int64_t width) {
    for (const bool progressive : {false, true})
      decoder.decode(with_exif(make_jpeg(smooth_image(height, width, 3), {.progressive = progressive}), 6), "picture",
                     {.channels = 1}, image);
    decoder.decode(make_png(patterned_image(height, width, 3)), "picture", {.channels = 1}, image);
    decoder.decode(make_webp(patterned_image(height, width, 3)), "picture", {.channels = 1}, image);
  };
  for (int i = 0; i < 2; ++i) decode_all(200, 300);
  const std::size_t kept = decoder.capacity();
  CHECK(kept < 4 << 20);
  for (int i = 0; i < 3; ++i) decode_all(40 + 20 * i, 280);
  CHECK(decoder.capacity() == kept);
}
