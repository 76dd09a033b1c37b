#include "datasets/image/exif_orientation.h"

#include <catch2/catch.hpp>

#include "tests/datasets/image/encoded_images.h"

using namespace trainer;

TEST_CASE("EXIF's orientation is read in either byte order, with or without its prefix") {
  for (const bool big_endian : {false, true}) {
    CHECK(exif_orientation(make_exif(1, big_endian)).is_upright());
    CHECK(exif_orientation(make_exif(2, big_endian)) == Orientation{false, true, false});
    CHECK(exif_orientation(make_exif(4, big_endian)) == Orientation{true, false, false});
    CHECK(exif_orientation(make_exif(5, big_endian)) == Orientation{false, false, true});
    Bytes with_prefix = bytes_of({"Exif\0\0", 6});
    append(with_prefix, make_exif(8, big_endian));
    CHECK(exif_orientation(with_prefix) == Orientation{false, true, true});
  }
}

TEST_CASE("EXIF that is cut off or tells nothing valid leaves an image as it is") {
  const Bytes exif = make_exif(6, true);
  // Its entry ends four bytes before the block does.
  for (std::size_t size = 0; size < exif.size() - 4; ++size)
    CHECK(exif_orientation(std::span(exif).first(size)).is_upright());
  CHECK(!exif_orientation(std::span(exif).first(exif.size() - 4)).is_upright());
  for (const int value : {0, 9, 255, 65535}) CHECK(exif_orientation(make_exif(value, false)).is_upright());
  Bytes far_directory = exif;
  for (std::size_t i = 4; i < 8; ++i) far_directory[i] = std::byte{0xff};
  CHECK(exif_orientation(far_directory).is_upright());
}

TEST_CASE("a region counts the same pixels in the stored and in the upright image") {
  for (int value = 1; value <= 8; ++value) {
    const Orientation orientation = exif_orientation(make_exif(value, true));
    const Region region{2, 5, 3, 4};
    const Region stored = orientation.stored_region(region, {20, 30});
    CHECK(orientation.upright_region(stored, {20, 30}) == region);
    CHECK(stored.height * stored.width == region.height * region.width);
  }
}
