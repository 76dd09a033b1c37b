#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "datasets/image/image_decoder.h"
#include "engine/errors.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {
namespace {

constexpr std::int64_t most_fuzzed_pixels = 1 << 16;

/// Decodes a region that the file's bytes choose, and holds it against the whole where both are of one scale.
void decode_region(ImageDecoder& decoder, std::span<const std::byte> file, DecodeRequest request, const Image& whole,
                   Pair size) {
  std::uint64_t chosen = file.size();
  for (const std::byte byte : file.last(std::min<std::size_t>(file.size(), 8)))
    chosen = chosen * 31 + std::to_integer<std::uint64_t>(byte);
  const auto choose = [&](std::int64_t least, std::int64_t most) {
    chosen = chosen * 6364136223846793005U + 1442695040888963407U;
    return least + static_cast<std::int64_t>((chosen >> 33) % static_cast<std::uint64_t>(most - least + 1));
  };
  Region& region = request.region;
  region.height = choose(1, size[0]);
  region.width = choose(1, size[1]);
  region.top = choose(0, size[0] - region.height);
  region.left = choose(0, size[1] - region.width);
  Image part;
  const DecodedPlace place = decoder.decode(file, "fuzzed", request, part);
  const std::int64_t reduction = place.reduction;
  require_internal(place.top <= region.top && place.left <= region.left &&
                       place.top + part.height() * reduction >= region.top + region.height &&
                       place.left + part.width() * reduction >= region.left + region.width,
                   "what is decoded contains the region");
  if (reduction != 1) return;
  for (std::int64_t y = 0; y < part.height(); ++y)
    require_internal(std::memcmp(part.row(y), whole.row(place.top + y) + place.left * whole.channels(),
                                 static_cast<std::size_t>(part.row_bytes())) == 0,
                     "a region holds what the whole does there");
}

/// A PNG with the checksums that its chunks should have: made-up inputs would hardly pass them.
std::string with_checksums(std::string_view input) {
  std::string file(input);
  constexpr std::size_t signature_bytes = 8, beside_data = 12;
  if (!input.starts_with("\x89PNG")) return file;
  for (std::size_t at = signature_bytes; at <= file.size() && file.size() - at >= beside_data;) {
    const auto* chunk = reinterpret_cast<const Bytef*>(file.data() + at);
    const std::size_t length = std::size_t{chunk[0]} << 24 | std::size_t{chunk[1]} << 16 | chunk[2] << 8 | chunk[3];
    if (length > file.size() - at - beside_data) break;
    const auto checksum = crc32(0, chunk + 4, static_cast<uInt>(length + 4));
    for (std::size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i));
    at += beside_data + length;
  }
  return file;
}

void decode_pixels(ImageDecoder& decoder, std::span<const std::byte> file) {
  const Pair size = decoder.read_header(file, "fuzzed").size;
  Image first, again;
  for (const std::int64_t channels : {3, 1, 4}) {
    decoder.decode(file, "fuzzed", {.channels = channels}, first);
    require_internal(first.size() == size && first.channels() == channels, "an image is as its header says");
    // Memory that was used before does not show in an image.
    decoder.decode(file, "fuzzed", {.channels = channels}, again);
    require_internal(std::ranges::equal(first.pixels(), again.pixels()), "an image decodes the same twice");
    decode_region(decoder, file, {.channels = channels}, first, size);
    decode_region(decoder, file, {.channels = channels, .wanted_size = {2, 3}}, first, size);
  }
}

}  // namespace

/// A file of an image: its pixels whole, by region and made smaller, and what it is as a mask.
void read_fuzzed_image(std::string_view input) {
  const std::string repaired = with_checksums(input);
  const auto file = std::as_bytes(std::span(repaired));
  ImageDecoder decoder(most_fuzzed_pixels);
  std::exception_ptr refusal;
  try {
    decode_pixels(decoder, file);
  } catch (const DataError&) {
    refusal = std::current_exception();
  }
  try {
    Image mask;
    decoder.decode_mask(file, "fuzzed", mask);
    require_internal(mask.channels() == 1, "a mask has one channel");
  } catch (const DataError&) {
  }
  if (refusal) std::rethrow_exception(refusal);
}

}  // namespace trainer
