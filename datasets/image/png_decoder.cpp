#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "datasets/image/byte_order.h"
#include "datasets/image/channel_conversion.h"
#include "datasets/image/format_decoder.h"
#include "datasets/image/retained_memory.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// What libspng allocates now comes from here: its allocators are told of no object. Set by PngMemoryScope alone.
thread_local RetainedMemory* png_memory = nullptr;

class PngMemoryScope {
 public:
  explicit PngMemoryScope(RetainedMemory& memory) {
    memory.take_back();
    png_memory = &memory;
  }
  ~PngMemoryScope() { png_memory = nullptr; }
  PngMemoryScope(const PngMemoryScope&) = delete;
  PngMemoryScope& operator=(const PngMemoryScope&) = delete;
};

/// Its size stands before each piece, for png_reallocate.
void* png_allocate(std::size_t num_bytes) {
  constexpr std::size_t before = RetainedMemory::alignment;
  if (num_bytes > SIZE_MAX - before) return nullptr;
  auto* memory = static_cast<std::byte*>(png_memory->allocate(before + num_bytes));
  if (memory == nullptr) return nullptr;
  std::memcpy(memory, &num_bytes, sizeof(num_bytes));
  return memory + before;
}

void* png_allocate_zeroed(std::size_t count, std::size_t num_bytes) {
  if (num_bytes != 0 && count > SIZE_MAX / num_bytes) return nullptr;
  void* memory = png_allocate(count * num_bytes);
  if (memory != nullptr) std::memset(memory, 0, count * num_bytes);
  return memory;
}

void* png_reallocate(void* old, std::size_t num_bytes) {
  void* memory = png_allocate(num_bytes);
  if (memory == nullptr || old == nullptr) return memory;
  std::size_t old_bytes = 0;
  std::memcpy(&old_bytes, static_cast<std::byte*>(old) - RetainedMemory::alignment, sizeof(old_bytes));
  std::memcpy(memory, old, std::min(old_bytes, num_bytes));
  return memory;
}

void png_free(void* /*memory*/) {}

struct PngContext {
  ~PngContext() { spng_ctx_free(context); }
  spng_ctx* context;
};

constexpr std::size_t png_signature_bytes = 8;

/// PNG 1.2, 3.2: length, type, data, checksum.
struct PngChunk {
  std::size_t length = 0;
  std::array<char, 4> type{};
  std::size_t data = 0;  ///< its offset

  bool is(const char* name) const { return std::memcmp(type.data(), name, type.size()) == 0; }
  /// What pixels are made of; text, colour profiles and the like are not handed on, however large they say they are.
  bool is_needed() const { return (type[0] & 0x20) == 0 || is("tRNS"); }
  std::size_t end() const { return data + length + 4; }
};

/// False where the file ends before the chunk's data.
bool png_chunk_at(std::span<const std::byte> file, std::size_t at, PngChunk& chunk) {
  if (at > file.size() || file.size() - at < 8) return false;
  chunk.length = big_endian32(file, at);
  std::memcpy(chunk.type.data(), file.data() + at + 4, chunk.type.size());
  chunk.data = at + 8;
  return true;
}

struct PngColours {
  unsigned bits = 8;
  std::int64_t channels = 1;  ///< of the samples; 1 for a palette
  bool has_palette = false;
  bool has_transparency = false;  ///< tRNS
};

/// Where the pixels of one of Adam7's passes lie in a row; the last is of an image that is not interlaced, too.
struct PngPass {
  std::int64_t first, step;
};
constexpr std::array<PngPass, 7> png_passes{{{0, 8}, {4, 8}, {0, 4}, {2, 4}, {0, 2}, {1, 2}, {0, 1}}};

class PngDecoder final : public FormatDecoder {
 public:
  explicit PngDecoder(RetainedMemory& memory) : memory_(memory) {}

  StoredHeader open(std::span<const std::byte> file) override;
  DecodedPlace decode(const DecodeRequest& request, Image& image) override;
  void decode_mask(Image& mask) override;

 private:
  /// Where a row's pixels go.
  struct Target {
    Region region;
    std::int64_t channels;
    bool is_mask;
    Image& image;
  };

  /// A byte each.
  struct Samples {
    const std::uint8_t* first;
    std::int64_t channels;
  };

  std::int64_t row_bytes() const { return (width_ * colours_.channels * std::int64_t{colours_.bits} + 7) / 8; }
  std::int64_t working_bytes() const;
  static int read_needed(spng_ctx* context, void* decoder, void* to, std::size_t num_bytes);
  void read_pixels(const Target& target);
  void read_scanlines(spng_ctx* context, const Target& target);
  void place_pixels(const PngPass& pass, std::int64_t y, const Target& target);
  Samples unpack(std::int64_t first, std::int64_t count, const Target& target);
  unsigned packed_sample(std::int64_t index) const;
  void look_up(std::int64_t first, std::int64_t count, std::int64_t channels);

  std::span<const std::byte> file_;
  std::int64_t height_ = 0, width_ = 0;
  PngColours colours_;
  bool interlaced_ = false;
  std::size_t position_ = 0, segment_end_ = 0;  ///< of what is handed on to libspng
  std::array<std::array<std::uint8_t, 4>, 256> palette_{};
  std::uint32_t num_colours_ = 0;
  spng_trns transparency_{};
  RetainedMemory& memory_;
  std::uint8_t *scanline_ = nullptr, *samples_ = nullptr, *converted_ = nullptr;  ///< of memory_, of the image
};

StoredHeader PngDecoder::open(std::span<const std::byte> file) {
  file_ = file;
  PngChunk chunk;
  constexpr std::size_t header_bytes = 13;
  if (!png_chunk_at(file, png_signature_bytes, chunk) || file.size() - chunk.data < header_bytes)
    throw DataError("the file ends within the PNG header");
  if (!chunk.is("IHDR") || chunk.length != header_bytes) throw DataError("a PNG without its header (IHDR)");
  const std::uint32_t width = big_endian32(file, chunk.data), height = big_endian32(file, chunk.data + 4);
  if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX)
    throw DataError(fmt::format("a PNG header of {}×{} pixels", height, width));
  height_ = height;
  width_ = width;
  colours_ = {};
  colours_.bits = byte_at(file, chunk.data + 8);
  const std::uint32_t type = byte_at(file, chunk.data + 9);
  const auto is_one_of = [&](std::initializer_list<unsigned> bits) {
    return std::find(bits.begin(), bits.end(), colours_.bits) != bits.end();
  };
  bool known = true;
  switch (type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
      known = is_one_of({1, 2, 4, 8, 16});
      break;
    case SPNG_COLOR_TYPE_INDEXED:
      known = is_one_of({1, 2, 4, 8});
      colours_.has_palette = true;
      break;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      known = is_one_of({8, 16});
      colours_.channels = 2;
      break;
    case SPNG_COLOR_TYPE_TRUECOLOR:
      known = is_one_of({8, 16});
      colours_.channels = 3;
      break;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      known = is_one_of({8, 16});
      colours_.channels = 4;
      break;
    default:
      known = false;
  }
  if (!known)
    throw DataError(fmt::format("a PNG of colour type {} with {} bits, which there is not", type, colours_.bits));
  interlaced_ = byte_at(file, chunk.data + 12) != 0;

  StoredHeader header;
  for (std::size_t at = chunk.end(); !chunk.is("IDAT"); at = chunk.end()) {
    if (!png_chunk_at(file, at, chunk)) throw DataError("the file ends before the pixels of the PNG");
    if (chunk.is("IEND")) throw DataError("a PNG without pixels");
    if (chunk.is("tRNS")) colours_.has_transparency = true;
    if (chunk.is("eXIf")) {
      if (chunk.length > file.size() - chunk.data) throw DataError("the file ends before the pixels of the PNG");
      header.orientation = exif_orientation(file.subspan(chunk.data, chunk.length));
    }
  }
  header.size = {height_, width_};
  header.channels = colours_.has_palette ? 3 : colours_.channels;
  header.working_bytes = working_bytes();
  if (colours_.has_transparency && header.channels % 2 == 1) ++header.channels;
  return header;
}

/// Of libspng its context and what it reads into, zlib's state and window, two rows with a filter's byte and 32 more,
/// of an interlaced image a row without; of this decoder a row as stored and two of 4 channels.
std::int64_t PngDecoder::working_bytes() const {
  constexpr std::int64_t objects = std::int64_t{60} << 10, before = RetainedMemory::alignment;
  const std::int64_t row = row_bytes();
  return RetainedMemory::own_bytes + objects + 2 * RetainedMemory::piece_bytes(before + row + 1 + 32) +
         (interlaced_ ? RetainedMemory::piece_bytes(before + row) : 0) + RetainedMemory::piece_bytes(row) +
         2 * RetainedMemory::piece_bytes(4 * width_);
}

/// libspng's source of bytes: the signature and the chunks that it needs.
int PngDecoder::read_needed(spng_ctx* /*context*/, void* decoder, void* to, std::size_t num_bytes) {
  auto& self = *static_cast<PngDecoder*>(decoder);
  auto* out = static_cast<std::byte*>(to);
  while (num_bytes > 0) {
    while (self.position_ == self.segment_end_) {
      PngChunk chunk;
      if (!png_chunk_at(self.file_, self.position_, chunk)) return SPNG_IO_EOF;
      self.segment_end_ = chunk.end();
      if (!chunk.is_needed()) self.position_ = self.segment_end_;
    }
    const std::size_t there =
        std::min(self.segment_end_, self.file_.size()) - std::min(self.position_, self.file_.size());
    const std::size_t taken = std::min(num_bytes, there);
    if (taken == 0) return SPNG_IO_EOF;
    std::memcpy(out, self.file_.data() + self.position_, taken);
    self.position_ += taken;
    out += taken;
    num_bytes -= taken;
  }
  return 0;
}

[[noreturn]] void throw_png_error(int error) {
  if (error == SPNG_EMEM) throw std::bad_alloc();
  if (error == SPNG_IO_EOF || error == SPNG_EOF) throw DataError("the file ends before the image does");
  throw DataError(fmt::format("a damaged PNG: libspng says '{}'", spng_strerror(error)));
}

void require_png(int error) {
  if (error != 0) throw_png_error(error);
}

void PngDecoder::read_pixels(const Target& target) {
  const PngMemoryScope scope(memory_);
  position_ = 0;
  segment_end_ = png_signature_bytes;
  spng_alloc allocators{png_allocate, png_reallocate, png_allocate_zeroed, png_free};
  const PngContext owner{spng_ctx_new2(&allocators, 0)};
  if (owner.context == nullptr) throw std::bad_alloc();
  require_png(spng_set_png_stream(owner.context, read_needed, this));
  require_png(spng_decode_image(owner.context, nullptr, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE));
  if (colours_.has_palette) {
    spng_plte plte{};
    require_png(spng_get_plte(owner.context, &plte));
    num_colours_ = std::min<std::uint32_t>(plte.n_entries, 256);
    for (std::uint32_t i = 0; i < num_colours_; ++i)
      palette_[i] = {plte.entries[i].red, plte.entries[i].green, plte.entries[i].blue, 255};
  }
  transparency_ = {};
  // One that is not valid for the image is left out by libspng.
  colours_.has_transparency = colours_.has_transparency && spng_get_trns(owner.context, &transparency_) == 0;
  if (colours_.has_palette && colours_.has_transparency) {
    for (std::uint32_t i = 0; i < std::min(transparency_.n_type3_entries, num_colours_); ++i)
      palette_[i][3] = transparency_.type3_alpha[i];
  }
  read_scanlines(owner.context, target);
}

void PngDecoder::read_scanlines(spng_ctx* context, const Target& target) {
  const Region& region = target.region;
  target.image.reshape(region.height, region.width, target.channels);
  const bool is_direct = !interlaced_ && !colours_.has_palette && colours_.bits == 8 && region.width == width_ &&
                         colours_.channels == target.channels;
  scanline_ = memory_.allocate_bytes(row_bytes());
  samples_ = memory_.allocate_bytes(4 * region.width);
  converted_ = memory_.allocate_bytes(4 * region.width);

  for (int status = 0; status != SPNG_EOI;) {
    spng_row_info row{};
    require_png(spng_get_row_info(context, &row));
    const auto y = static_cast<std::int64_t>(row.row_num) - region.top;
    const bool is_wanted = y >= 0 && y < region.height;
    if (!interlaced_ && y >= region.height) break;
    std::uint8_t* to = is_direct && is_wanted ? target.image.row(y) : scanline_;
    status = spng_decode_scanline(context, to, static_cast<std::size_t>(row_bytes()));
    if (status != 0 && status != SPNG_EOI) throw_png_error(status);
    if (is_wanted && !is_direct)
      place_pixels(interlaced_ ? png_passes.at(static_cast<std::size_t>(row.pass)) : png_passes.back(), y, target);
  }
}

void PngDecoder::place_pixels(const PngPass& pass, std::int64_t y, const Target& target) {
  const Region& region = target.region;
  const std::int64_t first = std::max<std::int64_t>((region.left - pass.first + pass.step - 1) / pass.step, 0);
  const std::int64_t last = (region.left + region.width - pass.first + pass.step - 1) / pass.step;
  const std::int64_t count = last - first;
  if (count <= 0) return;
  const Samples samples = unpack(first, count, target);
  const std::int64_t channels = target.channels;
  std::uint8_t* row = target.image.row(y);
  if (pass.step == 1) {
    convert_channels(samples.first, samples.channels, row, channels, count);
    return;
  }
  convert_channels(samples.first, samples.channels, converted_, channels, count);
  std::uint8_t* to = row + (pass.first + first * pass.step - region.left) * channels;
  const std::uint8_t* from = converted_;
  for (std::int64_t i = 0; i < count; ++i, from += channels, to += pass.step * channels)
    std::memcpy(to, from, static_cast<std::size_t>(channels));
}

/// Of up to 8 bits, in scanline_.
unsigned PngDecoder::packed_sample(std::int64_t index) const {
  const auto bit = static_cast<std::size_t>(index) * colours_.bits;
  return scanline_[bit / 8] >> (8 - colours_.bits - bit % 8) & ((1U << colours_.bits) - 1);
}

/// The scanline's pixels from `first` on, in samples_ where they are not stored so.
PngDecoder::Samples PngDecoder::unpack(std::int64_t first, std::int64_t count, const Target& target) {
  if (target.is_mask) {
    for (std::int64_t i = 0; i < count; ++i) samples_[i] = static_cast<std::uint8_t>(packed_sample(first + i));
    return {samples_, 1};
  }
  const bool with_transparency = colours_.has_transparency && target.channels == 4;
  if (colours_.has_palette) {
    look_up(first, count, with_transparency ? 4 : 3);
    return {samples_, with_transparency ? 4 : 3};
  }
  const std::int64_t channels = colours_.channels;
  const std::int64_t out_channels = with_transparency && channels % 2 == 1 ? channels + 1 : channels;
  if (colours_.bits == 8 && out_channels == channels) return {scanline_ + first * channels, channels};
  const std::uint32_t scale = colours_.bits < 8 ? 255 / ((1U << colours_.bits) - 1) : 1;
  const std::array<unsigned, 3> transparent = {channels == 1 ? transparency_.gray : transparency_.red,
                                               transparency_.green, transparency_.blue};
  std::uint8_t* to = samples_;
  for (std::int64_t i = 0; i < count; ++i, to += out_channels) {
    bool is_transparent = true;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const std::int64_t index = (first + i) * channels + channel;
      unsigned sample = 0;
      if (colours_.bits == 16) {
        const std::uint8_t* bytes = scanline_ + 2 * index;
        sample = static_cast<unsigned>(bytes[0]) << 8 | bytes[1];
        to[channel] = bytes[0];
      } else {
        sample = packed_sample(index);
        to[channel] = static_cast<std::uint8_t>(sample * scale);
      }
      is_transparent = is_transparent && channel < 3 && sample == transparent[static_cast<std::size_t>(channel)];
    }
    if (out_channels > channels) to[channels] = is_transparent ? 0 : 255;
  }
  return {samples_, out_channels};
}

void PngDecoder::look_up(std::int64_t first, std::int64_t count, std::int64_t channels) {
  std::uint8_t* to = samples_;
  for (std::int64_t i = 0; i < count; ++i, to += channels) {
    const unsigned index = packed_sample(first + i);
    if (index >= num_colours_)
      throw DataError(fmt::format("a damaged PNG: colour {} of a palette of {}", index, num_colours_));
    for (std::int64_t channel = 0; channel < channels; ++channel)
      to[channel] = palette_[index][static_cast<std::size_t>(channel)];
  }
}

DecodedPlace PngDecoder::decode(const DecodeRequest& request, Image& image) {
  read_pixels({request.region, request.channels, false, image});
  return {request.region.top, request.region.left, 1};
}

void PngDecoder::decode_mask(Image& mask) {
  if (!colours_.has_palette && colours_.channels > 1)
    throw DataError("a PNG of colours, or with alpha, cannot be a mask: it takes a palette, or grey of up to 8 bits");
  if (colours_.bits > 8)
    throw DataError("a grey PNG of 16 bits cannot be a mask: it takes a palette, or grey of up to 8 bits");
  read_pixels({{0, 0, height_, width_}, 1, true, mask});
}

}  // namespace

std::unique_ptr<FormatDecoder> make_png_decoder(RetainedMemory& memory) { return std::make_unique<PngDecoder>(memory); }

}  // namespace trainer
