#include "tests/datasets/image/encoded_images.h"

#include <webp/encode.h>
#include <zlib.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

#include "engine/errors.h"

namespace trainer {
namespace {

void append_number(Bytes& bytes, std::uint32_t value, int num_bytes, bool big_endian) {
  for (int i = 0; i < num_bytes; ++i)
    bytes.push_back(static_cast<std::byte>(value >> 8 * (big_endian ? num_bytes - 1 - i : i)));
}

/// The bits of a row, the first of a byte the highest.
void append_row(Bytes& bytes, const PngSamples& samples, std::int64_t y, std::int64_t first, std::int64_t step) {
  unsigned held = 0, num_held = 0;
  for (std::int64_t x = first; x < samples.width; x += step) {
    for (std::int64_t channel = 0; channel < samples.channels; ++channel) {
      const unsigned value = samples.at(y, x, channel);
      if (samples.bits == 16) {
        append_number(bytes, value, 2, true);
        continue;
      }
      held = held << samples.bits | value;
      num_held += samples.bits;
      if (num_held == 8) {
        bytes.push_back(static_cast<std::byte>(held));
        held = num_held = 0;
      }
    }
  }
  if (num_held > 0) bytes.push_back(static_cast<std::byte>(held << (8 - num_held)));
}

}  // namespace

Image patterned_image(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Image image;
  image.reshape(height, width, channels);
  for (std::int64_t i = 0; i < image.num_bytes(); ++i)
    image.pixels()[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>((i * 2654435761U) >> 13);
  return image;
}

Image smooth_image(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Image image;
  image.reshape(height, width, channels);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const double phase =
            static_cast<double>(channel) + static_cast<double>(x) / (3.0 + 4.0 * static_cast<double>(channel));
        const double value = 127.5 + 90 * std::sin(phase) + 37 * std::cos(static_cast<double>(y * (x + 9)) / 60);
        image.row(y)[x * channels + channel] = static_cast<std::uint8_t>(value);
      }
    }
  }
  return image;
}

bool is_same(const Image& a, const Image& b) {
  return a.size() == b.size() && a.channels() == b.channels() &&
         std::memcmp(a.row(0), b.row(0), static_cast<std::size_t>(a.num_bytes())) == 0;
}

bool is_part_of(const Image& decoded, const DecodedPlace& place, const Image& whole) {
  const std::int64_t top = place.top / place.reduction, left = place.left / place.reduction;
  if (decoded.channels() != whole.channels() || top < 0 || left < 0 || top + decoded.height() > whole.height() ||
      left + decoded.width() > whole.width())
    return false;
  for (std::int64_t y = 0; y < decoded.height(); ++y) {
    if (std::memcmp(decoded.row(y), whole.row(top + y) + left * whole.channels(),
                    static_cast<std::size_t>(decoded.row_bytes())) != 0)
      return false;
  }
  return true;
}

Bytes make_jpeg(const Image& image, const JpegMaking& making) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width());
  jpeg.image_height = static_cast<JDIMENSION>(image.height());
  jpeg.input_components = static_cast<int>(image.channels());
  jpeg.in_color_space = image.channels() == 1 ? JCS_GRAYSCALE : image.channels() == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  if (making.stores_ycck) jpeg_set_colorspace(&jpeg, JCS_YCCK);
  jpeg_set_quality(&jpeg, making.quality, TRUE);
  jpeg.comp_info[0].h_samp_factor = making.horizontal_sampling;
  jpeg.comp_info[0].v_samp_factor = making.vertical_sampling;
  if (image.channels() > 1) {
    jpeg.comp_info[1].h_samp_factor = jpeg.comp_info[1].v_samp_factor = 1;
    jpeg.comp_info[2].h_samp_factor = jpeg.comp_info[2].v_samp_factor = 1;
  }
  jpeg.restart_interval = making.restart_blocks;
  std::vector<jpeg_scan_info> scans;
  if (making.progressive) jpeg_simple_progression(&jpeg);
  if (making.scan_each_frequency) {
    for (int component = 0; component < jpeg.num_components; ++component) {
      scans.push_back({1, {component, 0, 0, 0}, 0, 0, 0, 0});
      for (int frequency = 1; frequency < DCTSIZE2; ++frequency)
        scans.push_back({1, {component, 0, 0, 0}, frequency, frequency, 0, 0});
    }
    jpeg.scan_info = scans.data();
    jpeg.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  for (std::int64_t y = 0; y < image.height(); ++y) {
    auto* row = const_cast<JSAMPROW>(image.row(y));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  Bytes file(begin, begin + size);
  std::free(buffer);
  return file;
}

Image decode_plainly(std::span<const std::byte> file, std::int64_t channels, unsigned reduction) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  if (channels == 3) jpeg.out_color_space = JCS_RGB;
  jpeg.scale_denom = reduction;
  jpeg_start_decompress(&jpeg);
  Image image;
  image.reshape(jpeg.output_height, jpeg.output_width, jpeg.output_components);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = image.row(jpeg.output_scanline);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return image;
}

Bytes png_chunk(const std::string& type, std::span<const std::byte> data) {
  Bytes chunk;
  append_number(chunk, static_cast<std::uint32_t>(data.size()), 4, true);
  append(chunk, bytes_of(type));
  append(chunk, data);
  const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(chunk.data()) + 4, static_cast<uInt>(chunk.size() - 4));
  append_number(chunk, static_cast<std::uint32_t>(checksum), 4, true);
  return chunk;
}

Bytes make_png(const PngSamples& samples, const PngMaking& making) {
  Bytes header, rows;
  append_number(header, static_cast<std::uint32_t>(samples.width), 4, true);
  append_number(header, static_cast<std::uint32_t>(samples.height), 4, true);
  for (const unsigned value :
       {samples.bits, static_cast<unsigned>(making.colour_type), 0U, 0U, making.interlaced ? 1U : 0U})
    append_number(header, value, 1, true);
  struct Pass {
    std::int64_t top, left, rows, columns;
  };
  std::vector<Pass> passes = {{0, 0, 1, 1}};
  // PNG 1.2, 8.2.
  if (making.interlaced)
    passes = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4}, {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};
  for (const Pass& pass : passes) {
    if (pass.left >= samples.width) continue;
    for (std::int64_t y = pass.top; y < samples.height; y += pass.rows) {
      rows.push_back(std::byte{0});  // not filtered
      append_row(rows, samples, y, pass.left, pass.columns);
    }
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  Bytes pixels(size);
  compress(reinterpret_cast<Bytef*>(pixels.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
           static_cast<uLong>(rows.size()));
  pixels.resize(size);
  Bytes file = bytes_of("\x89PNG\r\n\x1a\n");
  append(file, png_chunk("IHDR", header));
  append(file, making.chunks);
  // In two pieces, as writers may.
  append(file, png_chunk("IDAT", std::span(pixels).first(pixels.size() / 2)));
  append(file, png_chunk("IDAT", std::span(pixels).subspan(pixels.size() / 2)));
  append(file, making.late_chunks);
  append(file, png_chunk("IEND", {}));
  return file;
}

Bytes make_png(const Image& image) {
  PngSamples samples{image.height(), image.width(), image.channels(), 8, {}};
  samples.values.assign(image.pixels().begin(), image.pixels().end());
  constexpr std::array<int, 5> types = {0, 0, 4, 2, 6};
  return make_png(samples, {types.at(static_cast<std::size_t>(image.channels())), false, {}, {}});
}

Bytes make_webp(const Image& image) {
  std::uint8_t* buffer = nullptr;
  const auto encode = image.channels() == 4 ? WebPEncodeLosslessRGBA : WebPEncodeLosslessRGB;
  const std::size_t size = encode(image.row(0), static_cast<int>(image.width()), static_cast<int>(image.height()),
                                  static_cast<int>(image.row_bytes()), &buffer);
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  Bytes file(begin, begin + size);
  WebPFree(buffer);
  return file;
}

Bytes riff_chunk(const std::string& name, std::span<const std::byte> data) {
  Bytes chunk = bytes_of(name);
  append_number(chunk, static_cast<std::uint32_t>(data.size()), 4, false);
  append(chunk, data);
  if (data.size() % 2 == 1) chunk.push_back(std::byte{0});
  return chunk;
}

Bytes make_bmp(std::int64_t height, std::int64_t width, const BmpMaking& making,
               const std::function<std::uint32_t(std::int64_t y, std::int64_t x)>& pixel) {
  const bool is_core = making.header_bytes == 12;
  Bytes header, palette;
  append_number(header, making.header_bytes, 4, false);
  const int side_bytes = is_core ? 2 : 4;
  append_number(header, static_cast<std::uint32_t>(width), side_bytes, false);
  append_number(header, static_cast<std::uint32_t>(making.from_top ? -height : height), side_bytes, false);
  append_number(header, 1, 2, false);
  append_number(header, making.bits, 2, false);
  if (!is_core) {
    append_number(header, making.fields.empty() ? making.compression : 3, 4, false);
    for (int i = 0; i < 3; ++i) append_number(header, 0, 4, false);
    append_number(header, static_cast<std::uint32_t>(making.palette.size()), 4, false);
    append_number(header, 0, 4, false);
  }
  for (const std::uint32_t field : making.fields) append_number(header, field, 4, false);
  while (header.size() < making.header_bytes) header.push_back(std::byte{0});
  for (const std::uint32_t colour : making.palette) append_number(palette, colour, is_core ? 3 : 4, false);

  Bytes file = bytes_of("BM");
  append_number(file, 0, 4, false);
  append_number(file, 0, 4, false);
  append_number(file, static_cast<std::uint32_t>(14 + header.size() + palette.size()), 4, false);
  append(file, header);
  append(file, palette);
  for (std::int64_t i = 0; i < height; ++i) {
    const std::int64_t y = making.from_top ? i : height - 1 - i;
    Bytes row;
    unsigned held = 0, num_held = 0;
    for (std::int64_t x = 0; x < width; ++x) {
      if (making.bits >= 8) {
        append_number(row, pixel(y, x), static_cast<int>(making.bits / 8), false);
        continue;
      }
      held = held << making.bits | pixel(y, x);
      num_held += making.bits;
      if (num_held == 8) {
        row.push_back(static_cast<std::byte>(held));
        held = num_held = 0;
      }
    }
    if (num_held > 0) row.push_back(static_cast<std::byte>(held << (8 - num_held)));
    while (row.size() % 4 != 0) row.push_back(std::byte{0xee});
    append(file, row);
  }
  return file;
}

Bytes make_exif(int value, bool big_endian) {
  Bytes exif = bytes_of(big_endian ? "MM" : "II");
  append_number(exif, 42, 2, big_endian);
  append_number(exif, 10, 4, big_endian);  // the directory, two bytes behind the header
  append_number(exif, 0, 2, big_endian);
  append_number(exif, 2, 2, big_endian);
  for (const auto& [tag, content] : {std::pair{0x0100U, 640U}, std::pair{0x0112U, static_cast<unsigned>(value)}}) {
    append_number(exif, tag, 2, big_endian);
    append_number(exif, 3, 2, big_endian);
    append_number(exif, 1, 4, big_endian);
    append_number(exif, content, 2, big_endian);
    append_number(exif, 0, 2, big_endian);
  }
  append_number(exif, 0, 4, big_endian);
  return exif;
}

Bytes with_exif(const Bytes& jpeg, int orientation) {
  const Bytes exif = make_exif(orientation, orientation % 2 == 0);
  Bytes file(jpeg.begin(), jpeg.begin() + 2);
  append(file, std::array{std::byte{0xff}, std::byte{0xe1}});
  append_number(file, static_cast<std::uint32_t>(exif.size() + 8), 2, true);
  append(file, bytes_of({"Exif\0\0", 6}));
  append(file, exif);
  append(file, std::span(jpeg).subspan(2));
  return file;
}

Bytes bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

void append(Bytes& bytes, std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

std::string refusal_of_image(ImageDecoder& decoder, std::span<const std::byte> file, const DecodeRequest& request) {
  Image image;
  try {
    decoder.decode(file, "picture", request, image);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

std::string refusal_of_mask(ImageDecoder& decoder, std::span<const std::byte> file) {
  Image image;
  try {
    decoder.decode_mask(file, "picture", image);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace trainer
