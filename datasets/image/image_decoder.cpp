#include "datasets/image/image_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "datasets/image/exif_orientation.h"
#include "datasets/image/format_decoder.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// The first bytes of a file, at an offset.
struct ImageSignature {
  std::string_view bytes;
  std::size_t offset = 0;
  const char* name;

  bool begins(std::span<const std::byte> file) const {
    if (file.size() < offset + bytes.size()) return false;
    return std::equal(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(offset),
                      [](char expected, std::byte byte) { return std::byte(expected) == byte; });
  }
};

using namespace std::string_view_literals;

/// In ImageFormat's order.
constexpr std::array<ImageSignature, 4> read_signatures{{
    {"\xff\xd8\xff"sv, 0, "JPEG"},
    {"\x89PNG\r\n\x1a\n"sv, 0, "PNG"},
    {"WEBP"sv, 8, "WebP"},
    {"BM"sv, 0, "BMP"},
}};

/// Others are named, so that their owner knows what was met.
constexpr std::array<ImageSignature, 9> other_signatures{{
    {"GIF8"sv, 0, "a GIF image"},
    {"II*\0"sv, 0, "a TIFF image"},
    {"MM\0*"sv, 0, "a TIFF image"},
    {"ftypavif"sv, 4, "an AVIF image"},
    {"ftyphei"sv, 4, "a HEIF image"},
    {"ftypmif1"sv, 4, "a HEIF image"},
    {"\0\0\0\x0cJXL "sv, 0, "a JPEG XL image"},
    {"\xff\x0a"sv, 0, "a JPEG XL image"},
    {"\0\0\0\x0cjP  "sv, 0, "a JPEG 2000 image"},
}};

ImageFormat image_format(std::span<const std::byte> file) {
  if (file.empty()) throw DataError("the file is empty");
  for (std::size_t i = 0; i < read_signatures.size(); ++i) {
    if (read_signatures.at(i).begins(file)) return static_cast<ImageFormat>(i);
  }
  std::string found;
  for (const ImageSignature& signature : other_signatures) {
    if (signature.begins(file)) found = signature.name;
  }
  if (found.empty()) {
    found = "it begins with";
    for (const std::byte byte : file.first(std::min<std::size_t>(file.size(), 8)))
      found += fmt::format(" {:02x}", std::to_integer<int>(byte));
  } else {
    found = "this is " + found;
  }
  throw DataError(fmt::format("no JPEG, PNG, WebP or BMP image: {}", found));
}

std::unique_ptr<FormatDecoder> make_format_decoder(ImageFormat format, RetainedMemory& memory) {
  switch (format) {
    case ImageFormat::jpeg:
      return make_jpeg_decoder(memory);
    case ImageFormat::png:
      return make_png_decoder(memory);
    case ImageFormat::webp:
      return make_webp_decoder(memory);
    case ImageFormat::bmp:
      break;
  }
  return make_bmp_decoder(memory);
}

/// Errors of `body` with the file's name before them.
template <typename Body>
auto naming_file(const std::string& name, Body&& body) {
  try {
    return body();
  } catch (const DataError& error) {
    if (name.empty()) throw;
    throw DataError(name + ": " + error.what());
  }
}

}  // namespace

bool looks_like_image(std::span<const std::byte> file) {
  constexpr std::array<std::byte, 7> bmp_headers{std::byte{12}, std::byte{40},  std::byte{52}, std::byte{56},
                                                 std::byte{64}, std::byte{108}, std::byte{124}};
  constexpr std::size_t bmp_header_size = 14;
  const auto begins = [&](const ImageSignature& signature) {
    if (!signature.begins(file)) return false;
    if (signature.bytes.size() > 2) return true;
    // Two bytes begin other files too: a BMP's header has one of few sizes, and a bare JPEG XL is known by its name.
    if (signature.bytes != "BM"sv || file.size() < bmp_header_size + 4) return false;
    const auto size = file.subspan(bmp_header_size, 4);
    const bool is_small =
        std::all_of(size.begin() + 1, size.end(), [](std::byte each) { return each == std::byte{0}; });
    return is_small && std::find(bmp_headers.begin(), bmp_headers.end(), size[0]) != bmp_headers.end();
  };
  return std::any_of(read_signatures.begin(), read_signatures.end(), begins) ||
         std::any_of(other_signatures.begin(), other_signatures.end(), begins);
}

struct ImageDecoder::State {
  struct Opened {
    ImageFormat format;
    FormatDecoder& decoder;
    StoredHeader header;
  };

  Opened open(std::span<const std::byte> file) {
    const ImageFormat format = image_format(file);
    FormatDecoder& decoder = decoder_of(format);
    const StoredHeader header = decoder.open(file);
    const auto [height, width] = header.size;
    if (height > max_pixels / width)
      throw DataError(fmt::format("an image of {}×{} pixels, more than the {} that data.max_pixels allows", height,
                                  width, max_pixels));
    return {format, decoder, header};
  }
  FormatDecoder& decoder_of(ImageFormat format) {
    auto& decoder = decoders.at(static_cast<std::size_t>(format));
    if (!decoder) decoder = make_format_decoder(format, memory);
    return *decoder;
  }

  std::int64_t max_pixels = 0;
  RetainedMemory memory;                                                        ///< that decoders work with
  std::array<std::unique_ptr<FormatDecoder>, read_signatures.size()> decoders;  ///< those that were needed
  Image stored;                                                                 ///< what is turned upright
};

ImageDecoder::ImageDecoder(std::int64_t max_pixels) : state_(std::make_unique<State>()) {
  state_->max_pixels = max_pixels;
}
ImageDecoder::~ImageDecoder() = default;

void ImageDecoder::reserve(std::int64_t working_bytes, std::int64_t turned_bytes) {
  state_->memory.reserve(working_bytes);
  state_->stored.reserve(turned_bytes);
  for (std::size_t i = 0; i < read_signatures.size(); ++i) state_->decoder_of(static_cast<ImageFormat>(i));
}

ImageHeader ImageDecoder::read_header(std::span<const std::byte> file, const std::string& name) {
  return naming_file(name, [&] {
    const State::Opened opened = state_->open(file);
    const auto& [size, channels, orientation, working_bytes] = opened.header;
    return ImageHeader{opened.format, orientation.turned(size), channels, !orientation.is_upright(), working_bytes};
  });
}

DecodedPlace ImageDecoder::decode(std::span<const std::byte> file, const std::string& name,
                                  const DecodeRequest& request, Image& image) {
  return naming_file(name, [&] {
    const State::Opened opened = state_->open(file);
    const Orientation& orientation = opened.header.orientation;
    const Pair upright = orientation.turned(opened.header.size);
    Region region = request.region;
    if (region.height == 0) region = {0, 0, upright[0], upright[1]};
    require_internal(region.top >= 0 && region.left >= 0 && region.height > 0 && region.width > 0 &&
                         region.height <= upright[0] && region.width <= upright[1] &&
                         region.top <= upright[0] - region.height && region.left <= upright[1] - region.width,
                     "a region that is decoded lies in the image");
    require_internal(request.channels == 1 || request.channels == 3 || request.channels == 4,
                     "images are decoded to 1, 3 or 4 channels");
    DecodeRequest stored = request;
    stored.region = orientation.stored_region(region, opened.header.size);
    stored.wanted_size = orientation.turned(request.wanted_size);
    if (orientation.is_upright()) return opened.decoder.decode(stored, image);
    const DecodedPlace place = opened.decoder.decode(stored, state_->stored);
    turn_upright(state_->stored, orientation, image);
    const std::int64_t reduction = place.reduction;
    const Region covered = orientation.upright_region(
        {place.top, place.left, state_->stored.height() * reduction, state_->stored.width() * reduction},
        opened.header.size);
    return DecodedPlace{covered.top, covered.left, reduction};
  });
}

void ImageDecoder::decode_mask(std::span<const std::byte> file, const std::string& name, Image& mask) {
  naming_file(name, [&] {
    const State::Opened opened = state_->open(file);
    const Orientation& orientation = opened.header.orientation;
    if (orientation.is_upright()) return opened.decoder.decode_mask(mask);
    opened.decoder.decode_mask(state_->stored);
    turn_upright(state_->stored, orientation, mask);
  });
}

std::size_t ImageDecoder::capacity() const { return state_->memory.capacity() + state_->stored.capacity(); }

}  // namespace trainer
