#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

namespace {

/// A kind of PNG (PNG 1.2, 4.1.1).
struct PngKind {
  int colour_type;
  std::int64_t channels;
  unsigned bits;
};
constexpr std::array<PngKind, 15> png_kinds{{{0, 1, 1},
                                             {0, 1, 2},
                                             {0, 1, 4},
                                             {0, 1, 8},
                                             {0, 1, 16},
                                             {2, 3, 8},
                                             {2, 3, 16},
                                             {3, 1, 1},
                                             {3, 1, 2},
                                             {3, 1, 4},
                                             {3, 1, 8},
                                             {4, 2, 8},
                                             {4, 2, 16},
                                             {6, 4, 8},
                                             {6, 4, 16}}};

PngSamples made_up_samples(std::int64_t height, std::int64_t width, const PngKind& kind) {
  PngSamples samples{height, width, kind.channels, kind.bits, {}};
  for (std::int64_t i = 0; i < height * width * kind.channels; ++i)
    samples.values.push_back(static_cast<std::uint16_t>((i * 2654435761U >> 11) & ((1U << kind.bits) - 1)));
  return samples;
}

using Rgba = std::array<int, 4>;

/// Of a palette that the tests use: colour i.
Rgba palette_colour(int i) { return {i, 255 - i, (i * 7) % 256, i % 3 == 0 ? 255 - i / 2 : 255}; }

Bytes palette_chunks(int num_colours, bool with_transparency) {
  Bytes colours, alphas;
  for (int i = 0; i < num_colours; ++i) {
    const Rgba colour = palette_colour(i);
    for (int channel = 0; channel < 3; ++channel)
      colours.push_back(static_cast<std::byte>(colour[static_cast<std::size_t>(channel)]));
    alphas.push_back(static_cast<std::byte>(colour[3]));
  }
  Bytes chunks = png_chunk("PLTE", colours);
  if (with_transparency) append(chunks, png_chunk("tRNS", alphas));
  return chunks;
}

/// The first pixel's samples are the transparent ones.
Bytes transparency_chunk(const PngSamples& samples) {
  Bytes values;
  for (std::int64_t channel = 0; channel < samples.channels; ++channel) {
    values.push_back(static_cast<std::byte>(samples.at(0, 0, channel) >> 8));
    values.push_back(static_cast<std::byte>(samples.at(0, 0, channel) & 255));
  }
  return png_chunk("tRNS", values);
}

/// What the specification says of a pixel.
Rgba pixel_of(const PngSamples& samples, const PngKind& kind, bool with_transparency, std::int64_t y, std::int64_t x) {
  if (kind.colour_type == 3) {
    Rgba colour = palette_colour(samples.at(y, x, 0));
    if (!with_transparency) colour[3] = 255;
    return colour;
  }
  const auto value = [&](std::int64_t channel) {
    const int sample = samples.at(y, x, channel);
    return kind.bits == 16 ? sample / 256 : sample * 255 / ((1 << kind.bits) - 1);
  };
  Rgba pixel{};
  const bool is_grey = kind.channels <= 2;
  for (std::int64_t channel = 0; channel < 3; ++channel)
    pixel[static_cast<std::size_t>(channel)] = value(is_grey ? 0 : channel);
  pixel[3] = kind.channels % 2 == 0 ? value(kind.channels - 1) : 255;
  if (with_transparency && kind.channels % 2 == 1) {
    bool same = true;
    for (std::int64_t channel = 0; channel < kind.channels; ++channel)
      same = same && samples.at(y, x, channel) == samples.at(0, 0, channel);
    if (same) pixel[3] = 0;
  }
  return pixel;
}

Image expected_image(const PngSamples& samples, const PngKind& kind, bool with_transparency, std::int64_t channels) {
  Image image;
  image.reshape(samples.height, samples.width, channels);
  for (std::int64_t y = 0; y < samples.height; ++y) {
    for (std::int64_t x = 0; x < samples.width; ++x) {
      const Rgba pixel = pixel_of(samples, kind, with_transparency, y, x);
      std::uint8_t* to = image.row(y) + x * channels;
      if (channels == 1) {
        to[0] = static_cast<std::uint8_t>((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 32768) / 65536);
        continue;
      }
      for (std::int64_t channel = 0; channel < channels; ++channel)
        to[channel] = static_cast<std::uint8_t>(pixel[static_cast<std::size_t>(channel)]);
    }
  }
  return image;
}

}  // namespace

TEST_CASE("every kind of PNG has the pixels that the specification says, whole and by region") {
  ImageDecoder decoder(many_pixels);
  for (const PngKind& kind : png_kinds) {
    for (const Pair size : {Pair{1, 1}, Pair{3, 2}, Pair{13, 11}}) {
      const PngSamples samples = made_up_samples(size[0], size[1], kind);
      for (const bool with_transparency : {false, true}) {
        if (with_transparency && kind.channels % 2 == 0) continue;
        for (const bool interlaced : {false, true}) {
          PngMaking making{kind.colour_type, interlaced, {}, {}};
          if (kind.colour_type == 3)
            making.chunks = palette_chunks(1 << kind.bits, with_transparency);
          else if (with_transparency)
            making.chunks = transparency_chunk(samples);
          const Bytes file = make_png(samples, making);
          CAPTURE(kind.colour_type, kind.bits, size[0], with_transparency, interlaced);
          const ImageHeader header = decoder.read_header(file, "picture");
          CHECK(header.size == size);
          CHECK(header.channels == (kind.colour_type == 3 ? 3 : kind.channels) + (with_transparency ? 1 : 0));
          for (const std::int64_t channels : {1, 3, 4}) {
            const Image expected = expected_image(samples, kind, with_transparency, channels);
            Image image;
            decoder.decode(file, "picture", {.channels = channels}, image);
            CHECK(is_same(image, expected));
            const Region region{size[0] / 3, size[1] / 2, (size[0] + 1) / 2, (size[1] + 1) / 2};
            const DecodedPlace place = decoder.decode(file, "picture", {.channels = channels, .region = region}, image);
            CHECK(is_part_of(image, place, expected));
            CHECK((place.top <= region.top && place.top + image.height() >= region.top + region.height));
            CHECK((place.left <= region.left && place.left + image.width() >= region.left + region.width));
          }
        }
      }
    }
  }
}

TEST_CASE("a PNG's mask is its palette's indices or its grey values as they are stored") {
  ImageDecoder decoder(many_pixels);
  for (const PngKind& kind : png_kinds) {
    const PngSamples samples = made_up_samples(13, 11, kind);
    for (const bool interlaced : {false, true}) {
      PngMaking making{kind.colour_type, interlaced, {}, {}};
      // An index that the palette has no colour for is an index all the same.
      if (kind.colour_type == 3) making.chunks = palette_chunks(1 << kind.bits >> 1, true);
      const Bytes file = make_png(samples, making);
      CAPTURE(kind.colour_type, kind.bits);
      if (kind.channels > 1) {
        CHECK(refusal_of_mask(decoder, file).starts_with("picture: a PNG of colours, or with alpha, cannot be a mask"));
        continue;
      }
      if (kind.bits > 8) {
        CHECK(refusal_of_mask(decoder, file).starts_with("picture: a grey PNG of 16 bits cannot be a mask"));
        continue;
      }
      Image mask;
      decoder.decode_mask(file, "picture", mask);
      REQUIRE(mask.size() == Pair{13, 11});
      CHECK(std::equal(mask.pixels().begin(), mask.pixels().end(), samples.values.begin(), samples.values.end()));
    }
  }
}

TEST_CASE("a PNG that is cut off or damaged is refused") {
  ImageDecoder decoder(many_pixels);
  const Bytes file = make_png(patterned_image(20, 30, 3));
  REQUIRE(refusal_of_image(decoder, file).empty());
  // Behind the pixels there is the last piece's checksum, and the end's chunk.
  for (std::size_t size = 1; size < file.size() - 16; size += 11)
    CHECK(refusal_of_image(decoder, std::span(file).first(size)).starts_with("picture: "));
  CHECK(refusal_of_image(decoder, std::span(file).first(file.size() - 30)) ==
        "picture: the file ends before the image does");
  Bytes damaged = file;
  damaged[file.size() / 2] ^= std::byte{1};
  CHECK(refusal_of_image(decoder, damaged).starts_with("picture: a damaged PNG: libspng says"));

  const PngKind kind{3, 1, 8};
  const PngSamples samples = made_up_samples(9, 9, kind);
  const Bytes few_colours = make_png(samples, {3, false, palette_chunks(5, false), {}});
  CHECK(refusal_of_image(decoder, few_colours).find("of a palette of 5") != std::string::npos);
  CHECK(!refusal_of_image(decoder, make_png(samples, {3, false, {}, {}})).empty());
  CHECK(!refusal_of_image(decoder, make_png(samples, {5, false, {}, {}})).empty());
}

TEST_CASE("what a PNG holds beside its pixels is not read, however large it says it is") {
  ImageDecoder decoder(many_pixels);
  const Image image = patterned_image(20, 30, 3);
  PngSamples samples{20, 30, 3, 8, {}};
  samples.values.assign(image.pixels().begin(), image.pixels().end());
  Bytes chunks = png_chunk("tEXt", bytes_of("key"));
  // A profile and a text that would be inflated, and are damaged; a checksum that is wrong.
  append(chunks, png_chunk("iCCP", bytes_of("profile")));
  append(chunks, png_chunk("zTXt", bytes_of("k")));
  Bytes wrong = png_chunk("tIME", bytes_of("1234567"));
  wrong.back() ^= std::byte{1};
  append(chunks, wrong);
  Image decoded;
  decoder.decode(make_png(samples, {2, false, chunks, wrong}), "picture", {}, decoded);
  CHECK(is_same(decoded, image));
}

TEST_CASE("EXIF's orientation turns a PNG and a mask upright") {
  ImageDecoder decoder(many_pixels);
  const PngSamples samples = made_up_samples(5, 7, {0, 1, 8});
  const Bytes file = make_png(samples, {0, false, png_chunk("eXIf", make_exif(6, true)), {}});
  CHECK(decoder.read_header(file, "picture").size == Pair{7, 5});
  Image image, mask;
  decoder.decode(file, "picture", {.channels = 1}, image);
  decoder.decode_mask(file, "picture", mask);
  CHECK(is_same(image, mask));
  REQUIRE(image.size() == Pair{7, 5});
  // 6: the stored first row is the right side, its first column the top.
  for (std::int64_t y = 0; y < 7; ++y) {
    for (std::int64_t x = 0; x < 5; ++x) CHECK(image.row(y)[x] == samples.at(4 - x, y, 0));
  }
}
