#include <fmt/format.h>
#include <webp/decode.h>

#include <cstring>
#include <new>

#include "datasets/image/byte_order.h"
#include "datasets/image/channel_conversion.h"
#include "datasets/image/format_decoder.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Of the EXIF chunk, which stands behind the pixels; a file that says it has one and ends before it is refused.
Orientation webp_orientation(std::span<const std::byte> file) {
  // RIFF's 12 bytes, then chunks of a name, a length and data that is padded to an even length.
  constexpr std::size_t first_chunk = 12, chunk_header = 8;
  constexpr std::uint32_t has_exif = 0x08;
  if (file.size() < first_chunk + chunk_header + 1) return {};
  if (std::memcmp(file.data() + first_chunk, "VP8X", 4) != 0) return {};
  if ((byte_at(file, first_chunk + chunk_header) & has_exif) == 0) return {};
  std::size_t at = first_chunk;
  while (at <= file.size() && file.size() - at >= chunk_header) {
    const std::size_t length = little_endian32(file, at + 4);
    const std::size_t there = file.size() - at - chunk_header;
    if (std::memcmp(file.data() + at, "EXIF", 4) == 0 && length <= there)
      return exif_orientation(file.subspan(at + chunk_header, length));
    if (length > there) break;
    at += chunk_header + length + length % 2;
  }
  // Whole, it lacks what it says it has; else the header is cut off.
  if (file.size() >= std::size_t{8} + little_endian32(file, 4)) return {};
  throw DataError("the file ends before the EXIF data that the WebP says it has");
}

[[noreturn]] void throw_webp_error(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      throw DataError("the file ends before the image does");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw DataError("a WebP of a kind that libwebp does not read");
    default:
      throw DataError("a damaged WebP");
  }
}

/// libwebp decodes an image whole, and allocates what it needs for that itself.
class WebpDecoder final : public FormatDecoder {
 public:
  explicit WebpDecoder(RetainedMemory& memory) : memory_(memory) {}

  StoredHeader open(std::span<const std::byte> file) override;
  DecodedPlace decode(const DecodeRequest& request, Image& image) override;
  void decode_mask(Image& mask) override;

 private:
  static const std::uint8_t* bytes(std::span<const std::byte> file) {
    return reinterpret_cast<const std::uint8_t*>(file.data());
  }

  std::span<const std::byte> file_;
  std::int64_t height_ = 0, width_ = 0;
  RetainedMemory& memory_;
};

StoredHeader WebpDecoder::open(std::span<const std::byte> file) {
  file_ = file;
  WebPBitstreamFeatures features{};
  if (const VP8StatusCode status = WebPGetFeatures(bytes(file), file.size(), &features); status != VP8_STATUS_OK)
    throw_webp_error(status);
  if (features.has_animation != 0) throw DataError("an animated WebP, which is not one image");
  height_ = features.height;
  width_ = features.width;
  StoredHeader header;
  header.size = {height_, width_};
  header.channels = features.has_alpha != 0 ? 4 : 3;
  header.orientation = webp_orientation(file);
  // Colours of which grey is made.
  header.working_bytes = RetainedMemory::own_bytes + RetainedMemory::piece_bytes(height_ * width_ * 3);
  return header;
}

DecodedPlace WebpDecoder::decode(const DecodeRequest& request, Image& image) {
  const bool is_grey = request.channels == 1;
  image.reshape(height_, width_, request.channels);
  const std::int64_t channels = is_grey ? 3 : request.channels, num_pixels = height_ * width_;
  memory_.take_back();
  std::uint8_t* const decoded = is_grey ? memory_.allocate_bytes(num_pixels * channels) : image.row(0);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw InternalError("internal error: libwebp is not the one compiled for");
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = decoded;
  config.output.u.RGBA.stride = static_cast<int>(width_ * channels);
  config.output.u.RGBA.size = static_cast<std::size_t>(num_pixels * channels);
  if (const VP8StatusCode status = WebPDecode(bytes(file_), file_.size(), &config); status != VP8_STATUS_OK)
    throw_webp_error(status);
  if (is_grey) convert_channels(decoded, channels, image.row(0), 1, num_pixels);
  return {};
}

void WebpDecoder::decode_mask(Image& /*mask*/) {
  throw DataError("a WebP cannot be a mask: it stores colours; store masks as PNG or BMP");
}

}  // namespace

std::unique_ptr<FormatDecoder> make_webp_decoder(RetainedMemory& memory) {
  return std::make_unique<WebpDecoder>(memory);
}

}  // namespace trainer
