#include <catch2/catch.hpp>

#include "tests/datasets/heap_calls.h"
#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

namespace {

const std::string long_name = "a name that is longer than a string holds without memory of its own";

/// Decodes it whole, by region, and at every reduction.
void decode_in_many_ways(ImageDecoder& decoder, const Bytes& file, Image& image) {
  const Pair size = decoder.read_header(file, long_name).size;
  for (const std::int64_t channels : {1, 3, 4}) {
    for (const Region& region :
         {Region{}, Region{size[0] / 4, size[1] / 3, (size[0] + 2) / 3, (size[1] + 3) / 4}, Region{0, 0, size[0], 1}})
      decoder.decode(file, long_name, {.channels = channels, .region = region}, image);
    for (const std::int64_t reduction : {2, 4, 8})
      decoder.decode(file, long_name,
                     {.channels = channels,
                      .region = {0, 0, size[0], size[1]},
                      .wanted_size = {std::max<std::int64_t>(size[0] / reduction / 2, 1),
                                      std::max<std::int64_t>(size[1] / reduction / 2, 1)}},
                     image);
  }
}

}  // namespace

TEST_CASE("what a header says of a decoder's memory is enough, whatever the file and what is asked of it") {
  std::vector<Bytes> files;
  for (const Pair& size : {Pair{1, 1}, Pair{17, 3}, Pair{1, 200}, Pair{90, 131}}) {
    for (const std::int64_t channels : {1, 3, 4}) {
      for (const bool progressive : {false, true}) {
        for (int h = 1; h <= 4; ++h)
          for (int v = 1; v <= 4; ++v) {
            if (h * v + (channels == 4 ? 3 : 2) > 10) continue;  // blocks at once
            files.push_back(make_jpeg(smooth_image(size[0], size[1], channels),
                                      {.progressive = progressive, .horizontal_sampling = h, .vertical_sampling = v}));
          }
      }
    }
    for (const bool interlaced : {false, true}) {
      for (const auto& [colour_type, channels] : {std::pair{0, 1}, {2, 3}, {4, 2}, {6, 4}}) {
        PngSamples samples{size[0], size[1], channels, 16, {}};
        samples.values.assign(static_cast<std::size_t>(size[0] * size[1] * channels), 0x1234);
        PngMaking making;
        making.colour_type = colour_type;
        making.interlaced = interlaced;
        files.push_back(make_png(samples, making));
      }
    }
    files.push_back(make_bmp(size[0], size[1], {.bits = 32},
                             [](std::int64_t y, std::int64_t x) { return static_cast<std::uint32_t>(y * x); }));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    for (const int orientation : {1, 6}) {
      const bool is_jpeg = files[i][0] == std::byte{0xff};
      if (orientation != 1 && !is_jpeg) continue;
      const Bytes file = is_jpeg ? with_exif(files[i], orientation) : files[i];
      const ImageHeader header = ImageDecoder(many_pixels).read_header(file, long_name);
      CHECK(header.is_turned == (orientation != 1));
      ImageDecoder decoder(many_pixels);
      Image image;
      const std::int64_t turned = header.is_turned ? header.size[0] * header.size[1] * 4 : 0;
      decoder.reserve(header.working_bytes, turned);
      CHECK(decoder.capacity() == static_cast<std::size_t>(header.working_bytes + turned));
      decode_in_many_ways(decoder, file, image);
      CHECK(decoder.capacity() == static_cast<std::size_t>(header.working_bytes + turned));
    }
  }
}

#ifdef TRAINER_COUNT_HEAP_CALLS

namespace {

/// Calls into the heap while a decoder that has decoded `file` before decodes it again, whole and by region.
std::int64_t heap_calls_once_warm(const Bytes& file) {
  ImageDecoder decoder(many_pixels);
  Image image;
  // The second brings what was allocated piece by piece together.
  for (int i = 0; i < 2; ++i) decode_in_many_ways(decoder, file, image);
  return heap_calls_of([&] { decode_in_many_ways(decoder, file, image); });
}

}  // namespace

TEST_CASE("once a decoder is warm, a JPEG, PNG or BMP takes no allocation") {
  for (const bool progressive : {false, true}) {
    const JpegMaking making{.progressive = progressive, .horizontal_sampling = 2, .vertical_sampling = 2};
    CHECK(heap_calls_once_warm(make_jpeg(smooth_image(120, 130, 3), making)) == 0);
    CHECK(heap_calls_once_warm(with_exif(make_jpeg(smooth_image(120, 130, 1), making), 6)) == 0);
  }
  CHECK(heap_calls_once_warm(make_jpeg(smooth_image(120, 130, 4))) == 0);
  for (const std::int64_t channels : {1, 2, 3, 4})
    CHECK(heap_calls_once_warm(make_png(patterned_image(120, 130, channels))) == 0);
  CHECK(heap_calls_once_warm(make_bmp(
            120, 130, {}, [](std::int64_t y, std::int64_t x) { return static_cast<std::uint32_t>(y * x); })) == 0);
  // libwebp allocates for each image: the count sees that, so that 0 above means something.
  CHECK(heap_calls_once_warm(make_webp(patterned_image(120, 130, 3))) > 0);
}

#endif
