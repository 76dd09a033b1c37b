#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "datasets/image/image.h"
#include "datasets/image/image_decoder.h"

// Files that tests decode, made by libraries' encoders or byte by byte.

namespace trainer {

using Bytes = std::vector<std::byte>;

/// What decoders in tests allow.
inline constexpr std::int64_t many_pixels = 1 << 20;

/// Of no symmetry: every pixel differs from those that mirroring or turning puts in its place.
Image patterned_image(std::int64_t height, std::int64_t width, std::int64_t channels);
/// As a photograph: smooth, so that a JPEG of it has colours of every frequency but few of the highest.
Image smooth_image(std::int64_t height, std::int64_t width, std::int64_t channels);
/// The same pixels, and the same size.
bool is_same(const Image& a, const Image& b);
/// Whether `decoded`, which lies at `place`, holds what `whole` does there.
bool is_part_of(const Image& decoded, const DecodedPlace& place, const Image& whole);

struct JpegMaking {
  int quality = 95;
  bool progressive = false;
  int horizontal_sampling = 1, vertical_sampling = 1;  ///< of the first component; the others have 1
  unsigned restart_blocks = 0;
  bool stores_ycck = false;  ///< of four channels
  bool scan_each_frequency = false;
};
/// Of 1, 3 (RGB) or 4 channels; those of four are stored as they are, with Adobe's marker.
Bytes make_jpeg(const Image& image, const JpegMaking& making = {});
/// As libjpeg decodes it with its own memory; `channels` is the file's or 3.
Image decode_plainly(std::span<const std::byte> jpeg, std::int64_t channels, unsigned reduction = 1);

/// Samples as they are stored: of `bits` bits, `channels` a pixel.
struct PngSamples {
  std::int64_t height = 0, width = 0, channels = 1;
  unsigned bits = 8;
  std::vector<std::uint16_t> values;

  std::uint16_t at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + channel)];
  }
};
struct PngMaking {
  int colour_type = 0;
  bool interlaced = false;
  Bytes chunks;       ///< between the header and the pixels
  Bytes late_chunks;  ///< behind the pixels
};
Bytes make_png(const PngSamples& samples, const PngMaking& making);
Bytes make_png(const Image& image);
Bytes png_chunk(const std::string& type, std::span<const std::byte> data);

/// Without loss, of 3 or 4 channels.
Bytes make_webp(const Image& image);
/// As one of a WebP's chunks are: a name, a length and padded data.
Bytes riff_chunk(const std::string& name, std::span<const std::byte> data);

struct BmpMaking {
  unsigned bits = 24;
  bool from_top = false;
  std::uint32_t header_bytes = 40;
  std::vector<std::uint32_t> fields = {};   ///< red, green, blue and perhaps alpha: a bit of a pixel each that is set
  std::vector<std::uint32_t> palette = {};  ///< 0x00RRGGBB
  std::uint32_t compression = 0;            ///< 3 where there are fields
};
Bytes make_bmp(std::int64_t height, std::int64_t width, const BmpMaking& making,
               const std::function<std::uint32_t(std::int64_t y, std::int64_t x)>& pixel);

/// An EXIF block with the orientation `value`, without "Exif\0\0".
Bytes make_exif(int value, bool big_endian);
/// The JPEG with an EXIF segment.
Bytes with_exif(const Bytes& jpeg, int orientation);

Bytes bytes_of(const std::string& text);
void append(Bytes& bytes, std::span<const std::byte> more);

/// The message of the DataError that decoding throws; empty where it throws none.
std::string refusal_of_image(ImageDecoder& decoder, std::span<const std::byte> file, const DecodeRequest& request = {});
std::string refusal_of_mask(ImageDecoder& decoder, std::span<const std::byte> file);

}  // namespace trainer
