#include <catch2/catch.hpp>

#include "datasets/image/png_writer.h"
#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

TEST_CASE("What is written as a PNG is decoded to the same pixels") {
  for (const std::int64_t channels : {1, 3})
    for (const Pair& size : {Pair{1, 1}, Pair{7, 13}, Pair{64, 33}}) {
      const Image image = patterned_image(size[0], size[1], channels);
      const Bytes file = bytes_of(png_of(image));
      ImageDecoder decoder(many_pixels);
      DecodeRequest request;
      request.channels = channels;
      Image decoded;
      decoder.decode(file, "written", request, decoded);
      CHECK(is_same(decoded, image));
      CHECK(decoder.read_header(file, "written").channels == channels);
    }
}
