#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "datasets/image/image.h"

namespace trainer {

enum class ImageFormat : std::uint8_t { jpeg, png, webp, bmp };

/// Whether a file that begins so is an image, of the formats that are decoded or of another; 18 bytes suffice.
bool looks_like_image(std::span<const std::byte> file);

/// Of the libraries that decode: with others pixels may be others.
std::string decoder_versions();

/// What the first bytes of an image file tell.
struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  Pair size{0, 0};  ///< of the upright image: EXIF's orientation is followed
  /// As stored: 1, 2 (grey and alpha), 3 or 4; of a palette its colours', of CMYK 3. A BMP is grey where its palette
  /// is.
  std::int64_t channels = 0;
  bool is_turned = false;  ///< EXIF tells that it is stored in another way than upright
  /// Memory that decoding takes beside the file and the pixels, at most, whatever is asked for: rows, tables,
  /// coefficients of a progressive JPEG; of a WebP as grey its colours. Pixels before they are turned upright, and what
  /// libwebp allocates by itself (libwebp_bytes), come in addition.
  std::int64_t working_bytes = 0;
};

/// About what libwebp allocates while it decodes so many pixels, and gives back: of lossless files the pixels as it
/// decodes them.
inline std::int64_t libwebp_bytes(std::int64_t num_pixels) { return 4 * num_pixels; }

struct DecodeRequest {
  /// 1 grey, 3 RGB, 4 RGBA. Alpha is left out where it is not asked for, not blended, as PIL's convert("RGB") does;
  /// grey of colours is ITU-R 601-2 as PIL's convert("L"). 16 bits become their upper 8.
  std::int64_t channels = 3;
  /// Pixels of the upright image that are wanted; height 0: all.
  Region region = {};
  /// What the region will be made smaller to, so that no more detail than that takes is decoded: of a JPEG every 2nd,
  /// 4th or 8th pixel each way, as long as at least twice of what is wanted is left; 0: all of it.
  Pair wanted_size{0, 0};
};

/// Of a JPEG: every how many-th pixel is decoded each way for such a request, whose region is given: 1, 2, 4 or 8.
int jpeg_reduction(const DecodeRequest& request);

/// Where decoded pixels lie in the upright image: pixel (y, x) covers `reduction`² pixels from
/// (top + y · reduction, left + x · reduction) on. Where a side is no multiple of the reduction the pixels at one edge
/// cover less; at the top or left that is so in an image that was turned, whose top or left is then below 0.
struct DecodedPlace {
  std::int64_t top = 0, left = 0;
  std::int64_t reduction = 1;
};

/// Decodes JPEG (baseline, progressive, grey, CMYK), PNG (8 and 16 bit, palette, alpha), WebP and BMP, told by their
/// contents. One thread's; keeps its memory from image to image. Every failure is a DataError that begins with `name`
/// where that is not empty, or std::bad_alloc. EXIF's orientation is followed, in PNG where it stands before the
/// pixels.
class ImageDecoder {
 public:
  /// Images of more pixels are refused before anything is allocated.
  explicit ImageDecoder(std::int64_t max_pixels);
  /// Allocates once what decoding takes: the most of ImageHeader::working_bytes, and of pixels before they are turned.
  /// std::bad_alloc.
  void reserve(std::int64_t working_bytes, std::int64_t turned_bytes);
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  /// Of a whole file, or of its first bytes: throws where these do not reach, as where the file is no image.
  ImageHeader read_header(std::span<const std::byte> file, const std::string& name);
  /// Fills `image` with a region that contains the one asked for, and says where it lies. Whatever the region, a pixel
  /// has the value that decoding the whole gives it. Damage behind the region's last row may go unnoticed.
  DecodedPlace decode(std::span<const std::byte> file, const std::string& name, const DecodeRequest& request,
                      Image& image);
  /// A palette's indices, or grey values: one channel that stands for classes, without conversion. DataError for an
  /// image of colours.
  void decode_mask(std::span<const std::byte> file, const std::string& name, Image& mask);
  /// Bytes that it has allocated and keeps. libwebp allocates beside that for each image.
  std::size_t capacity() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer
