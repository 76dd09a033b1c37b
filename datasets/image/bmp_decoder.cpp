#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "datasets/image/byte_order.h"
#include "datasets/image/channel_conversion.h"
#include "datasets/image/format_decoder.h"
#include "engine/errors.h"

// Microsoft's device-independent bitmaps (BITMAPFILEHEADER, then BITMAPCOREHEADER, or BITMAPINFOHEADER and what grew
// from it), without compression: https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-storage

namespace trainer {
namespace {

/// One colour's bits of a pixel.
struct BmpField {
  std::uint32_t mask = 0;

  std::uint8_t value_of(std::uint32_t pixel) const {
    if (mask == 0) return 0;
    const int shift = std::countr_zero(mask);
    const std::uint32_t most = mask >> shift, value = (pixel & mask) >> shift;
    if (most > 255) return static_cast<std::uint8_t>(value >> (std::bit_width(most) - 8));
    return static_cast<std::uint8_t>(value * 255 / most);
  }
};

class BmpDecoder final : public FormatDecoder {
 public:
  explicit BmpDecoder(RetainedMemory& memory) : memory_(memory) {}

  StoredHeader open(std::span<const std::byte> file) override;
  DecodedPlace decode(const DecodeRequest& request, Image& image) override;
  void decode_mask(Image& mask) override;

 private:
  void read_fields(std::size_t header_bytes, std::uint32_t compression);
  void read_palette(std::size_t at, std::uint32_t num_colours, std::size_t entry_bytes);
  void require(std::size_t num_bytes) const {
    if (file_.size() < num_bytes) throw DataError("the file ends within the BMP header");
  }
  /// Of the upright image, the first `num_pixels` of which are there.
  const std::uint8_t* row_at(std::int64_t y, std::int64_t num_pixels) const;
  unsigned packed_sample(const std::uint8_t* row, std::int64_t x) const;
  void unpack(const std::uint8_t* row, std::int64_t left, std::int64_t width, std::uint8_t* to);

  std::span<const std::byte> file_;
  std::int64_t height_ = 0, width_ = 0;
  unsigned bits_ = 0;
  bool from_top_ = false;
  std::size_t pixels_ = 0;            ///< their offset
  std::array<BmpField, 4> fields_{};  ///< red, green, blue, alpha
  std::array<std::array<std::uint8_t, 3>, 256> palette_{};
  std::uint32_t num_colours_ = 0;
  std::int64_t channels_ = 3;
  RetainedMemory& memory_;
};

constexpr std::size_t bmp_file_header = 14;

StoredHeader BmpDecoder::open(std::span<const std::byte> file) {
  file_ = file;
  require(bmp_file_header + 4);
  pixels_ = little_endian32(file, 10);
  const std::size_t header_bytes = little_endian32(file, bmp_file_header);
  constexpr std::size_t core_header = 12, info_header = 40, largest_header = 124;
  const bool is_core = header_bytes == core_header;
  if (!is_core && (header_bytes < info_header || header_bytes > largest_header))
    throw DataError(fmt::format("a BMP header of {} bytes, expected 12 or 40 to 124", header_bytes));
  require(bmp_file_header + header_bytes);
  std::uint32_t compression = 0, num_colours = 0;
  std::int64_t height = 0;
  if (is_core) {
    width_ = little_endian16(file, 18);
    height = little_endian16(file, 20);
    bits_ = little_endian16(file, 24);
  } else {
    width_ = static_cast<std::int32_t>(little_endian32(file, 18));
    height = static_cast<std::int32_t>(little_endian32(file, 22));
    bits_ = little_endian16(file, 28);
    compression = little_endian32(file, 30);
    num_colours = little_endian32(file, 46);
  }
  from_top_ = height < 0;
  height_ = from_top_ ? -height : height;
  if (width_ <= 0 || height_ == 0) throw DataError(fmt::format("a BMP header of {}×{} pixels", height_, width_));
  constexpr std::uint32_t uncompressed = 0, rle8 = 1, rle4 = 2, bit_fields = 3, alpha_bit_fields = 6;
  if (compression == rle8 || compression == rle4)
    throw DataError("a BMP of run lengths (RLE), which is not read: store it without compression, or as PNG");
  const bool has_fields = compression == bit_fields || compression == alpha_bit_fields;
  if (!(compression == uncompressed || (has_fields && (bits_ == 16 || bits_ == 32))))
    throw DataError(fmt::format("a BMP of {} bits with compression {}, which is not read", bits_, compression));
  fields_ = {};
  num_colours_ = 0;
  channels_ = 3;
  switch (bits_) {
    case 1:
    case 4:
    case 8: {
      const std::uint32_t most = 1U << bits_;
      read_palette(bmp_file_header + header_bytes, num_colours == 0 ? most : std::min(num_colours, most),
                   is_core ? 3 : 4);
      break;
    }
    case 16:
      fields_ = {{{0x7c00}, {0x03e0}, {0x001f}, {}}};
      break;
    case 24:
      break;
    case 32:
      fields_ = {{{0xff0000}, {0x00ff00}, {0x0000ff}, {}}};
      break;
    default:
      throw DataError(fmt::format("a BMP of {} bits, expected 1, 4, 8, 16, 24 or 32", bits_));
  }
  if (has_fields) read_fields(header_bytes, compression);
  StoredHeader header;
  header.size = {height_, width_};
  header.channels = channels_;
  header.working_bytes = RetainedMemory::own_bytes + RetainedMemory::piece_bytes(width_ * channels_);
  return header;
}

void BmpDecoder::read_fields(std::size_t header_bytes, std::uint32_t compression) {
  constexpr std::size_t first_field = bmp_file_header + 40;
  // Behind the oldest header they stand where the longer ones hold them.
  const bool has_alpha = header_bytes >= 56 || compression == 6;
  require(first_field + (has_alpha ? 16 : 12));
  for (std::size_t i = 0; i < (has_alpha ? 4 : 3); ++i)
    fields_.at(i).mask = little_endian32(file_, first_field + 4 * i);
  if (fields_[0].mask == 0 || fields_[1].mask == 0 || fields_[2].mask == 0)
    throw DataError("a BMP with a colour that no bit of a pixel tells");
  if (fields_[3].mask != 0) channels_ = 4;
}

void BmpDecoder::read_palette(std::size_t at, std::uint32_t num_colours, std::size_t entry_bytes) {
  require(at + num_colours * entry_bytes);
  num_colours_ = num_colours;
  bool is_grey = true;
  for (std::uint32_t i = 0; i < num_colours; ++i, at += entry_bytes) {
    for (std::size_t channel = 0; channel < 3; ++channel)
      palette_[i][channel] = static_cast<std::uint8_t>(byte_at(file_, at + 2 - channel));
    is_grey = is_grey && palette_[i][0] == palette_[i][1] && palette_[i][1] == palette_[i][2];
  }
  channels_ = is_grey ? 1 : 3;
}

const std::uint8_t* BmpDecoder::row_at(std::int64_t y, std::int64_t num_pixels) const {
  // Rows are padded to 4 bytes.
  const std::uint64_t stride = (static_cast<std::uint64_t>(width_) * bits_ + 31) / 32 * 4;
  const std::uint64_t used = (static_cast<std::uint64_t>(num_pixels) * bits_ + 7) / 8;
  const auto rows_before = static_cast<std::uint64_t>(from_top_ ? y : height_ - 1 - y);
  const std::uint64_t there = file_.size();
  if (rows_before > there / stride || pixels_ > there || stride * rows_before > there - pixels_ ||
      used > there - pixels_ - stride * rows_before)
    throw DataError("the file ends before the image does");
  const std::uint64_t begin = pixels_ + stride * rows_before;
  return reinterpret_cast<const std::uint8_t*>(file_.data()) + begin;
}

unsigned BmpDecoder::packed_sample(const std::uint8_t* row, std::int64_t x) const {
  const auto bit = static_cast<std::size_t>(x) * bits_;
  return row[bit / 8] >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1);
}

/// Fills `to` with `width` pixels of the stored channels.
void BmpDecoder::unpack(const std::uint8_t* row, std::int64_t left, std::int64_t width, std::uint8_t* to) {
  for (std::int64_t x = left; x < left + width; ++x, to += channels_) {
    if (bits_ <= 8) {
      const unsigned index = packed_sample(row, x);
      if (index >= num_colours_)
        throw DataError(fmt::format("a damaged BMP: colour {} of a palette of {}", index, num_colours_));
      for (std::int64_t channel = 0; channel < channels_; ++channel)
        to[channel] = palette_[index][static_cast<std::size_t>(channel)];
    } else if (bits_ == 24) {
      for (std::int64_t channel = 0; channel < 3; ++channel) to[channel] = row[3 * x + 2 - channel];
    } else {
      const std::uint8_t* bytes = row + x * (bits_ / 8);
      std::uint32_t pixel = bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8;
      if (bits_ == 32) pixel |= static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
      for (std::int64_t channel = 0; channel < channels_; ++channel)
        to[channel] = fields_[static_cast<std::size_t>(channel)].value_of(pixel);
    }
  }
}

DecodedPlace BmpDecoder::decode(const DecodeRequest& request, Image& image) {
  const Region& region = request.region;
  // Before anything is allocated: all rows are there.
  row_at(from_top_ ? region.top + region.height - 1 : region.top, region.left + region.width);
  image.reshape(region.height, region.width, request.channels);
  memory_.take_back();
  std::uint8_t* const row = memory_.allocate_bytes(region.width * channels_);
  for (std::int64_t y = 0; y < region.height; ++y) {
    unpack(row_at(region.top + y, region.left + region.width), region.left, region.width, row);
    convert_channels(row, channels_, image.row(y), request.channels, region.width);
  }
  return {region.top, region.left, 1};
}

void BmpDecoder::decode_mask(Image& mask) {
  if (bits_ > 8) throw DataError("a BMP of colours cannot be a mask: it takes a palette, or grey");
  row_at(from_top_ ? height_ - 1 : 0, width_);
  mask.reshape(height_, width_, 1);
  for (std::int64_t y = 0; y < height_; ++y) {
    const std::uint8_t* row = row_at(y, width_);
    std::uint8_t* to = mask.row(y);
    for (std::int64_t x = 0; x < width_; ++x) to[x] = static_cast<std::uint8_t>(packed_sample(row, x));
  }
}

}  // namespace

std::unique_ptr<FormatDecoder> make_bmp_decoder(RetainedMemory& memory) { return std::make_unique<BmpDecoder>(memory); }

}  // namespace trainer
