#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>

#include "datasets/image/byte_order.h"
#include "datasets/image/channel_conversion.h"
#include "datasets/image/format_decoder.h"
#include "datasets/image/jpeg_memory.h"
#include "engine/errors.h"

#include <jerror.h>

// Note [Errors of libjpeg]
// libjpeg reports an error by a call that must not return. An exception must not pass through its frames, which are C,
// so that call jumps back to guarded(), which throws. Between the two there are only frames of libjpeg and of a lambda
// whose variables have no destructors.

namespace trainer {

int jpeg_reduction(const DecodeRequest& request) {
  const auto [wanted_height, wanted_width] = request.wanted_size;
  if (wanted_height <= 0 || wanted_width <= 0) return 1;
  for (const int reduction : {8, 4, 2}) {
    if (request.region.height / reduction / 2 >= wanted_height && request.region.width / reduction / 2 >= wanted_width)
      return reduction;
  }
  return 1;
}

namespace {

/// A photograph has one scan, or about ten where it is progressive; each of hundreds takes a pass over the image.
constexpr int most_jpeg_scans = 100;

struct JpegErrors : jpeg_error_mgr {
  std::jmp_buf jump;
  bool ended_early = false;
  bool has_too_many_scans = false;
};

/// Frames of C are left by it: see Note [Errors of libjpeg].
[[noreturn]] void leave_libjpeg(j_common_ptr jpeg) { std::longjmp(static_cast<JpegErrors*>(jpeg->err)->jump, 1); }

void take_jpeg_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;  // not about damage
  switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:  // bytes between segments
    case JWRN_JFIF_MAJOR:       // a version that is not known yet
    case JWRN_ADOBE_XFORM:      // taken for the usual transform, as other programs do
      return;
    default:
      leave_libjpeg(jpeg);
  }
}

boolean end_of_jpeg(j_decompress_ptr jpeg) {
  static_cast<JpegErrors*>(jpeg->err)->ended_early = true;
  leave_libjpeg(reinterpret_cast<j_common_ptr>(jpeg));
}

void skip_jpeg_bytes(j_decompress_ptr jpeg, long num_bytes) {
  if (num_bytes <= 0) return;
  if (static_cast<std::size_t>(num_bytes) > jpeg->src->bytes_in_buffer) end_of_jpeg(jpeg);
  jpeg->src->next_input_byte += num_bytes;
  jpeg->src->bytes_in_buffer -= static_cast<std::size_t>(num_bytes);
}

void count_jpeg_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= most_jpeg_scans) return;
  static_cast<JpegErrors*>(jpeg->err)->has_too_many_scans = true;
  leave_libjpeg(jpeg);
}

/// Of the first EXIF segment before the pixels. libjpeg has read the segments, so they are whole.
Orientation jpeg_orientation(std::span<const std::byte> file) {
  constexpr std::uint32_t start_of_scan = 0xda, end_of_image = 0xd9, app1 = 0xe1;
  std::size_t at = 2;
  while (at + 4 <= file.size()) {
    if (byte_at(file, at) != 0xff) {
      ++at;  // extraneous bytes
      continue;
    }
    const std::uint32_t marker = byte_at(file, at + 1);
    if (marker == 0xff) {
      ++at;  // padding
      continue;
    }
    if (marker == start_of_scan || marker == end_of_image) break;
    // A stuffed byte, or a marker without a segment.
    if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += 2;
      continue;
    }
    const std::size_t length = big_endian16(file, at + 2);
    if (length < 2 || length > file.size() - at - 2) break;
    const std::span<const std::byte> payload = file.subspan(at + 4, length - 2);
    if (marker == app1 && payload.size() >= 6 && std::memcmp(payload.data(), "Exif\0\0", 6) == 0)
      return exif_orientation(payload);
    at += 2 + length;
  }
  return {};
}

class JpegDecoder final : public FormatDecoder {
 public:
  explicit JpegDecoder(RetainedMemory& memory);
  ~JpegDecoder() override;

  StoredHeader open(std::span<const std::byte> file) override;
  DecodedPlace decode(const DecodeRequest& request, Image& image) override;
  void decode_mask(Image& mask) override;

 private:
  template <typename Body>
  void guarded(Body&& body);
  [[noreturn]] void throw_error();
  std::int64_t working_bytes() const;
  std::int64_t row_buffer_bytes(std::int64_t size_of_block) const;
  std::int64_t coefficient_bytes() const;
  bool can_crop() const;
  bool is_smoothed() const;
  void choose_colours(std::int64_t channels);
  void read_rows(const DecodeRequest& request, DecodedPlace& place, Image& image);

  JpegErrors errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
  RetainedMemory& memory_;
  JpegMemory of_libjpeg_{memory_};
  bool is_inverted_cmyk_ = false;
  std::int64_t row_channels_ = 0;  ///< of libjpeg's rows
};

JpegDecoder::JpegDecoder(RetainedMemory& memory) : memory_(memory) {
  jpeg_std_error(&errors_);
  errors_.error_exit = leave_libjpeg;
  errors_.emit_message = take_jpeg_message;
  source_.init_source = [](j_decompress_ptr) {};
  source_.term_source = [](j_decompress_ptr) {};
  source_.fill_input_buffer = end_of_jpeg;
  source_.skip_input_data = skip_jpeg_bytes;
  source_.resync_to_restart = jpeg_resync_to_restart;
  progress_.progress_monitor = count_jpeg_scans;
  jpeg_.err = &errors_;
  guarded([&] { jpeg_create_decompress(&jpeg_); });
  jpeg_.src = &source_;
  jpeg_.progress = &progress_;
  of_libjpeg_.install(jpeg_);
}

JpegDecoder::~JpegDecoder() {
  of_libjpeg_.uninstall(jpeg_);
  jpeg_destroy_decompress(&jpeg_);
}

template <typename Body>
void JpegDecoder::guarded(Body&& body) {
  if (setjmp(errors_.jump) != 0) throw_error();
  body();
}

void JpegDecoder::throw_error() {
  if (errors_.ended_early) throw DataError("the file ends before the image does");
  if (errors_.has_too_many_scans)
    throw DataError(fmt::format("a JPEG of more than {} scans, which no photograph needs", most_jpeg_scans));
  if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  std::array<char, JMSG_LENGTH_MAX> message{};
  errors_.format_message(reinterpret_cast<j_common_ptr>(&jpeg_), message.data());
  throw DataError(fmt::format("damaged, or a JPEG of a kind that is not read: libjpeg says '{}'", message.data()));
}

// Note [Memory of libjpeg]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// What libjpeg-turbo allocates for an image is known from its header, whatever is asked of it: its objects and tables
// (about 35 KiB with 4 channels, in pieces of RetainedMemory), rows of samples between its stages (jdmainct.c, and
// jdsample.c where a channel is stored smaller), and the coefficients of all blocks where these come in several scans
// (jdcoefct.c). Pixels that are decoded at a reduction have rows of other sizes, of which the largest count.
// tests/datasets/image/decoder_allocations_test.cpp compares: a libjpeg that took more would be met there.

constexpr std::int64_t libjpeg_object_bytes = std::int64_t{40} << 10;

/// Of channel buffers where a block becomes so many pixels each way.
std::int64_t JpegDecoder::row_buffer_bytes(std::int64_t size_of_block) const {
  constexpr auto pointer = static_cast<std::int64_t>(sizeof(void*));
  const std::int64_t most_h = jpeg_.max_h_samp_factor, most_v = jpeg_.max_v_samp_factor;
  const auto samples = [&](std::int64_t row_samples, std::int64_t num_rows) {
    return RetainedMemory::piece_bytes(num_rows * pointer) +
           RetainedMemory::piece_bytes(num_rows * JpegMemory::row_bytes(row_samples));
  };
  std::int64_t num_bytes = 0;
  for (int i = 0; i < jpeg_.num_components; ++i) {
    const jpeg_component_info& component = jpeg_.comp_info[i];
    // A channel that is stored smaller is decoded at a larger scale where that gives its pixels at once.
    std::int64_t scaled = size_of_block;
    while (scaled < DCTSIZE && most_h * size_of_block % (component.h_samp_factor * scaled * 2) == 0 &&
           most_v * size_of_block % (component.v_samp_factor * scaled * 2) == 0)
      scaled *= 2;
    const std::int64_t group_rows = component.v_samp_factor * scaled / size_of_block;
    const std::int64_t group_columns = component.h_samp_factor * scaled / size_of_block;
    // With the rows above and below that interpolation reads.
    num_bytes += samples(component.width_in_blocks * scaled, group_rows * (size_of_block + 2));
    num_bytes += RetainedMemory::piece_bytes(2 * group_rows * (size_of_block + 4) * pointer);
    if (group_rows == most_v && group_columns == most_h) continue;
    const std::int64_t width = (jpeg_.image_width * size_of_block + DCTSIZE - 1) / DCTSIZE;
    num_bytes += samples((width + most_h - 1) / most_h * most_h, most_v);
  }
  return num_bytes;
}

std::int64_t JpegDecoder::coefficient_bytes() const {
  constexpr auto pointer = static_cast<std::int64_t>(sizeof(void*));
  const auto rounded_up = [](std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; };
  std::int64_t num_bytes = 0;
  for (int i = 0; i < jpeg_.num_components; ++i) {
    const jpeg_component_info& component = jpeg_.comp_info[i];
    const std::int64_t across = rounded_up(component.width_in_blocks, component.h_samp_factor);
    const std::int64_t down = rounded_up(component.height_in_blocks, component.v_samp_factor);
    num_bytes += RetainedMemory::piece_bytes(down * pointer) +
                 RetainedMemory::piece_bytes(across * down * static_cast<std::int64_t>(sizeof(JBLOCK)));
  }
  return num_bytes;
}

std::int64_t JpegDecoder::working_bytes() const {
  std::int64_t of_rows = 0;
  for (const std::int64_t size_of_block : {1, 2, 4, 8}) of_rows = std::max(of_rows, row_buffer_bytes(size_of_block));
  constexpr std::int64_t most_row_channels = 4, rgb = 3;
  const std::int64_t scratch = RetainedMemory::piece_bytes(jpeg_.image_width * (most_row_channels + rgb));
  const bool holds_all = jpeg_has_multiple_scans(const_cast<jpeg_decompress_struct*>(&jpeg_)) != FALSE;
  return RetainedMemory::own_bytes + libjpeg_object_bytes + of_rows + scratch + (holds_all ? coefficient_bytes() : 0);
}

StoredHeader JpegDecoder::open(std::span<const std::byte> file) {
  jpeg_abort_decompress(&jpeg_);
  of_libjpeg_.begin_image(jpeg_);
  errors_.ended_early = errors_.has_too_many_scans = false;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
  source_.bytes_in_buffer = file.size();
  guarded([&] { jpeg_read_header(&jpeg_, TRUE); });
  StoredHeader header;
  header.size = {jpeg_.image_height, jpeg_.image_width};
  if (jpeg_.num_components != 1 && jpeg_.num_components != 3 && jpeg_.num_components != 4)
    throw DataError(fmt::format("a JPEG of {} channels, expected 1, 3 or 4", jpeg_.num_components));
  header.channels = jpeg_.num_components == 1 ? 1 : 3;
  header.orientation = jpeg_orientation(file);
  header.working_bytes = working_bytes();
  return header;
}

void JpegDecoder::choose_colours(std::int64_t channels) {
  is_inverted_cmyk_ = jpeg_.num_components == 4;
  if (is_inverted_cmyk_) {
    jpeg_.out_color_space = JCS_CMYK;
    row_channels_ = 4;
  } else if (jpeg_.num_components == 1 && channels == 1) {
    jpeg_.out_color_space = JCS_GRAYSCALE;
    row_channels_ = 1;
  } else {
    // Grey of colours is made of RGB, as elsewhere: of the stored luma it would be another value here and there.
    jpeg_.out_color_space = channels == 4 ? JCS_EXT_RGBA : JCS_RGB;
    row_channels_ = channels == 4 ? 4 : 3;
  }
}

/// jpeg_crop_scanline() of libjpeg-turbo before 3.1 takes a component that is decoded at a larger scale than others,
/// and interpolated all the same, for narrower than it is. (That takes 4 × 2 pixels a colour, and an image made
/// smaller.)
bool JpegDecoder::can_crop() const {
  for (int i = 0; i < jpeg_.num_components; ++i) {
    const jpeg_component_info& component = jpeg_.comp_info[i];
    if (component.DCT_scaled_size != jpeg_.min_DCT_scaled_size &&
        component.h_samp_factor * component.DCT_scaled_size != jpeg_.max_h_samp_factor * jpeg_.min_DCT_scaled_size)
      return false;
  }
  return true;
}

/// Whether libjpeg interpolates blocks of a progressive JPEG: it does where a file ends, as it may, without all bits of
/// the lowest frequencies. Near an edge of what is decoded the values are others then.
bool JpegDecoder::is_smoothed() const {
  if (jpeg_.progressive_mode == 0 || jpeg_.coef_bits == nullptr) return false;
  constexpr int most_frequencies_looked_at = 10;
  for (int i = 0; i < jpeg_.num_components; ++i) {
    const int* missing_bits = jpeg_.coef_bits[i];
    if (std::any_of(missing_bits, missing_bits + most_frequencies_looked_at, [](int bits) { return bits != 0; }))
      return true;
  }
  return false;
}

DecodedPlace JpegDecoder::decode(const DecodeRequest& request, Image& image) {
  DecodedPlace place;
  place.reduction = jpeg_reduction(request);
  choose_colours(request.channels);
  jpeg_.scale_num = 1;
  jpeg_.scale_denom = static_cast<unsigned>(place.reduction);
  jpeg_.dct_method = JDCT_ISLOW;
  jpeg_.do_fancy_upsampling = TRUE;
  guarded([&] { jpeg_start_decompress(&jpeg_); });
  read_rows(request, place, image);
  return place;
}

void JpegDecoder::read_rows(const DecodeRequest& request, DecodedPlace& place, Image& image) {
  const Region& region = request.region;
  const std::int64_t reduction = place.reduction;
  const std::int64_t full_width = jpeg_.output_width, full_height = jpeg_.output_height;
  const std::int64_t top = region.top / reduction, left = region.left / reduction;
  const std::int64_t bottom = std::min((region.top + region.height + reduction - 1) / reduction, full_height);
  const std::int64_t right = std::min((region.left + region.width + reduction - 1) / reduction, full_width);
  place.top = top * reduction;
  place.left = left * reduction;

  // Colours of less resolution are interpolated from their neighbours, which an edge that is cut off would lack.
  constexpr std::int64_t margin = 4;
  auto first = static_cast<JDIMENSION>(std::max<std::int64_t>(left - margin, 0));
  auto width = static_cast<JDIMENSION>(std::min(right + margin, full_width) - first);
  const bool smoothed = is_smoothed();
  if (width < full_width && (smoothed || !can_crop())) {
    first = 0;
    width = static_cast<JDIMENSION>(full_width);
  }
  if (width < full_width) guarded([&] { jpeg_crop_scanline(&jpeg_, &first, &width); });

  image.reshape(bottom - top, right - left, request.channels);
  const bool is_direct = width == right - left && row_channels_ == request.channels && !is_inverted_cmyk_;
  const std::int64_t row_bytes = width * row_channels_;
  // A row of libjpeg's, and one as RGB.
  std::uint8_t* const scratch =
      is_direct && !smoothed ? nullptr : memory_.allocate_bytes(row_bytes + 3 * std::int64_t{width});
  const std::int64_t num_pixels = right - left;
  const std::int64_t from_pixel = left - first;

  guarded([&] {
    if (smoothed) {
      JSAMPROW row = scratch;
      for (std::int64_t y = 0; y < top; ++y) jpeg_read_scanlines(&jpeg_, &row, 1);
    } else if (top > 0) {
      jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(top));
    }
    for (std::int64_t y = 0; y < bottom - top; ++y) {
      JSAMPROW row = is_direct ? image.row(y) : scratch;
      jpeg_read_scanlines(&jpeg_, &row, 1);
      if (is_direct) continue;
      const std::uint8_t* pixels = row + from_pixel * row_channels_;
      if (is_inverted_cmyk_) {
        std::uint8_t* rgb = scratch + row_bytes;
        convert_inverted_cmyk(pixels, rgb, num_pixels);
        convert_channels(rgb, 3, image.row(y), request.channels, num_pixels);
      } else {
        convert_channels(pixels, row_channels_, image.row(y), request.channels, num_pixels);
      }
    }
    // What follows the last row is looked at, too: a file that is cut off may have lost its end alone.
    if (bottom == full_height) jpeg_finish_decompress(&jpeg_);
  });
}

void JpegDecoder::decode_mask(Image& /*mask*/) {
  throw DataError(
      "a JPEG cannot be a mask: it stores values approximately, so that they do not tell classes; store masks as PNG "
      "or "
      "BMP");
}

}  // namespace

std::unique_ptr<FormatDecoder> make_jpeg_decoder(RetainedMemory& memory) {
  return std::make_unique<JpegDecoder>(memory);
}

}  // namespace trainer
