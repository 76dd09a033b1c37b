#include <array>
#include <catch2/catch.hpp>

#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

namespace {

Bytes webp_file(const Bytes& chunks) {
  Bytes contents = bytes_of("WEBP");
  append(contents, chunks);
  return riff_chunk("RIFF", contents);
}

/// The extended format: `flags`, the canvas, then the pixels' chunk of a simple file, then `behind`.
Bytes extended_webp(const Bytes& simple, Pair size, int flags, const Bytes& behind) {
  Bytes header(10);
  header[0] = static_cast<std::byte>(flags);
  for (std::size_t i = 0; i < 3; ++i) {
    header[4 + i] = static_cast<std::byte>((size[1] - 1) >> 8 * i);
    header[7 + i] = static_cast<std::byte>((size[0] - 1) >> 8 * i);
  }
  Bytes chunks = riff_chunk("VP8X", header);
  append(chunks, std::span(simple).subspan(12));
  append(chunks, behind);
  return webp_file(chunks);
}

}  // namespace

TEST_CASE("a WebP that is stored without loss has the pixels that were stored") {
  ImageDecoder decoder(many_pixels);
  for (const Pair size : {Pair{1, 1}, Pair{13, 22}}) {
    const Image image = patterned_image(size[0], size[1], 3);
    const Bytes file = make_webp(image);
    CHECK(decoder.read_header(file, "picture").channels == 3);
    Image decoded;
    decoder.decode(file, "picture", {}, decoded);
    CHECK(is_same(decoded, image));
    decoder.decode(file, "picture", {.channels = 1}, decoded);
    CHECK(decoded.row(0)[0] ==
          (image.row(0)[0] * 19595 + image.row(0)[1] * 38470 + image.row(0)[2] * 7471 + 32768) / 65536);
    const DecodedPlace place =
        decoder.decode(file, "picture", {.channels = 3, .region = {size[0] / 2, size[1] / 2, 1, 1}}, decoded);
    CHECK(is_part_of(decoded, place, image));

    Image with_alpha = patterned_image(size[0], size[1], 4);
    // What cannot be seen is not kept by the encoder.
    for (std::int64_t i = 3; i < with_alpha.num_bytes(); i += 4) with_alpha.pixels()[static_cast<std::size_t>(i)] |= 1;
    const Bytes alpha_file = make_webp(with_alpha);
    CHECK(decoder.read_header(alpha_file, "picture").channels == 4);
    decoder.decode(alpha_file, "picture", {.channels = 4}, decoded);
    CHECK(is_same(decoded, with_alpha));
  }
}

TEST_CASE("EXIF's orientation turns a WebP upright, and is not passed over where the file ends before it") {
  ImageDecoder decoder(many_pixels);
  const Image image = patterned_image(4, 6, 3);
  constexpr int exif_flag = 0x08;
  const Bytes file = extended_webp(make_webp(image), {4, 6}, exif_flag, riff_chunk("EXIF", make_exif(8, false)));
  CHECK(decoder.read_header(file, "picture").size == Pair{6, 4});
  Image decoded;
  decoder.decode(file, "picture", {}, decoded);
  REQUIRE(decoded.size() == Pair{6, 4});
  // 8: the stored first row is the left side, its first column the bottom.
  for (std::int64_t y = 0; y < 6; ++y) {
    for (std::int64_t x = 0; x < 4; ++x) CHECK(decoded.row(y)[3 * x] == image.row(x)[3 * (5 - y)]);
  }
  CHECK(refusal_of_image(decoder, std::span(file).first(file.size() - 10)) ==
        "picture: the file ends before the EXIF data that the WebP says it has");
}

TEST_CASE("a WebP that is animated, cut off, damaged or a mask is refused") {
  ImageDecoder decoder(many_pixels);
  const Bytes file = make_webp(patterned_image(20, 30, 3));
  constexpr int animation_flag = 0x02;
  CHECK(refusal_of_image(decoder, extended_webp(file, {20, 30}, animation_flag, {})) ==
        "picture: an animated WebP, which is not one image");
  for (std::size_t size = 1; size < file.size() - 1; size += 7)
    CHECK(refusal_of_image(decoder, std::span(file).first(size)).starts_with("picture: "));
  CHECK(refusal_of_image(decoder, std::span(file).first(file.size() / 2)) ==
        "picture: the file ends before the image does");
  CHECK(refusal_of_image(decoder, extended_webp(file, {21, 30}, 0, {})) == "picture: a damaged WebP");
  CHECK(refusal_of_mask(decoder, file).starts_with("picture: a WebP cannot be a mask"));
}
