#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "datasets/image/exif_orientation.h"
#include "datasets/image/image.h"
#include "datasets/image/image_decoder.h"
#include "datasets/image/retained_memory.h"

namespace trainer {

/// What a file's beginning tells of an image.
struct StoredHeader {
  Pair size{0, 0};  ///< as stored, not turned upright
  std::int64_t channels = 0;
  Orientation orientation;
  std::int64_t working_bytes = 0;  ///< as in ImageHeader, without what turning takes
};

/// Decodes one format. What it throws is a DataError that does not tell the file's name, or std::bad_alloc. The bytes
/// of a file are the caller's and stay where they are until the next open(). What it works with it takes of a memory
/// that it shares with decoders of other formats: of what one opened nothing is left when another opens a file.
class FormatDecoder {
 public:
  FormatDecoder() = default;
  virtual ~FormatDecoder() = default;
  FormatDecoder(const FormatDecoder&) = delete;
  FormatDecoder& operator=(const FormatDecoder&) = delete;

  /// Allocates nothing that a file's claims could make large.
  virtual StoredHeader open(std::span<const std::byte> file) = 0;
  /// Of the file that was opened, once; as ImageDecoder::decode, of the stored image. `request` names its region.
  virtual DecodedPlace decode(const DecodeRequest& request, Image& image) = 0;
  /// Of the file that was opened, once: all of the stored image.
  virtual void decode_mask(Image& mask) = 0;
};

std::unique_ptr<FormatDecoder> make_jpeg_decoder(RetainedMemory& memory);
std::unique_ptr<FormatDecoder> make_png_decoder(RetainedMemory& memory);
std::unique_ptr<FormatDecoder> make_webp_decoder(RetainedMemory& memory);
std::unique_ptr<FormatDecoder> make_bmp_decoder(RetainedMemory& memory);

}  // namespace trainer
