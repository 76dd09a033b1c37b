#include "datasets/image/exif_orientation.h"

#include <algorithm>
#include <cstring>

#include "datasets/image/byte_order.h"

namespace trainer {
namespace {

/// Of EXIF's values 1 to 8.
constexpr Orientation orientation_of_value(std::uint32_t value) {
  switch (value) {
    case 2:
      return {false, true, false};
    case 3:
      return {true, true, false};
    case 4:
      return {true, false, false};
    case 5:
      return {false, false, true};
    case 6:
      return {true, false, true};
    case 7:
      return {true, true, true};
    case 8:
      return {false, true, true};
    default:
      return {};
  }
}

template <int num_channels>
void turn_pixels(const Image& stored, const Orientation& orientation, Image& upright) {
  const std::int64_t height = stored.height(), width = stored.width();
  // Squares of pixels, so that what is read and what is written both stay near where rows become columns.
  constexpr std::int64_t square = 32;
  for (std::int64_t y0 = 0; y0 < upright.height(); y0 += square) {
    for (std::int64_t x0 = 0; x0 < upright.width(); x0 += square) {
      for (std::int64_t y = y0; y < std::min(y0 + square, upright.height()); ++y) {
        std::uint8_t* to = upright.row(y) + x0 * num_channels;
        for (std::int64_t x = x0; x < std::min(x0 + square, upright.width()); ++x, to += num_channels) {
          const std::int64_t row = orientation.exchanged ? x : y, column = orientation.exchanged ? y : x;
          const std::uint8_t* from = stored.row(orientation.mirrored_rows ? height - 1 - row : row) +
                                     (orientation.mirrored_columns ? width - 1 - column : column) * num_channels;
          for (int channel = 0; channel < num_channels; ++channel) to[channel] = from[channel];
        }
      }
    }
  }
}

}  // namespace

Pair Orientation::turned(Pair size) const { return exchanged ? Pair{size[1], size[0]} : size; }

namespace {

Region exchanged_sides(const Region& region) { return {region.left, region.top, region.width, region.height}; }

Region mirrored(Region region, const Orientation& orientation, Pair size) {
  if (orientation.mirrored_rows) region.top = size[0] - region.top - region.height;
  if (orientation.mirrored_columns) region.left = size[1] - region.left - region.width;
  return region;
}

}  // namespace

Region Orientation::stored_region(Region upright, Pair stored_size) const {
  return mirrored(exchanged ? exchanged_sides(upright) : upright, *this, stored_size);
}

Region Orientation::upright_region(Region stored, Pair stored_size) const {
  const Region region = mirrored(stored, *this, stored_size);
  return exchanged ? exchanged_sides(region) : region;
}

Orientation exif_orientation(std::span<const std::byte> exif) {
  constexpr char prefix[6] = {'E', 'x', 'i', 'f', 0, 0};
  if (exif.size() >= sizeof(prefix) && std::memcmp(exif.data(), prefix, sizeof(prefix)) == 0)
    exif = exif.subspan(sizeof(prefix));
  if (exif.size() < 8) return {};
  const bool little = std::memcmp(exif.data(), "II*\0", 4) == 0;
  if (!little && std::memcmp(exif.data(), "MM\0*", 4) != 0) return {};
  const auto number16 = [&](std::size_t at) { return little ? little_endian16(exif, at) : big_endian16(exif, at); };
  const auto number32 = [&](std::size_t at) { return little ? little_endian32(exif, at) : big_endian32(exif, at); };
  const std::size_t directory = number32(4);
  if (directory > exif.size() || exif.size() - directory < 2) return {};
  constexpr std::size_t entry_bytes = 12;
  const std::size_t num_entries =
      std::min<std::size_t>(number16(directory), (exif.size() - directory - 2) / entry_bytes);
  for (std::size_t i = 0; i < num_entries; ++i) {
    const std::size_t entry = directory + 2 + i * entry_bytes;
    constexpr std::uint32_t orientation_tag = 0x0112, short_type = 3, long_type = 4;
    if (number16(entry) != orientation_tag) continue;
    if (number32(entry + 4) != 1) return {};
    const std::uint32_t type = number16(entry + 2);
    if (type == short_type) return orientation_of_value(number16(entry + 8));
    if (type == long_type) return orientation_of_value(number32(entry + 8));
    return {};
  }
  return {};
}

void turn_upright(const Image& stored, const Orientation& orientation, Image& upright) {
  const Pair size = orientation.turned(stored.size());
  upright.reshape(size[0], size[1], stored.channels());
  switch (stored.channels()) {
    case 1:
      return turn_pixels<1>(stored, orientation, upright);
    case 3:
      return turn_pixels<3>(stored, orientation, upright);
    default:
      return turn_pixels<4>(stored, orientation, upright);
  }
}

}  // namespace trainer
