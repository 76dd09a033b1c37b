#include "engine/report/page/packed_bytes.h"

#include <zlib.h>

#include <cstdint>
#include <limits>

#include "engine/errors.h"

namespace trainer {

std::string gzip_of(std::string_view bytes) {
  constexpr int gzip_window = 15 + 16;  // the largest, in gzip's frame
  constexpr int usual_memory = 8;
  constexpr std::size_t piece_bytes = std::size_t{1} << 18;
  z_stream stream{};
  require_internal(
      deflateInit2(&stream, Z_BEST_SPEED + 5, Z_DEFLATED, gzip_window, usual_memory, Z_DEFAULT_STRATEGY) == Z_OK,
      "zlib compresses");
  require_internal(bytes.size() <= std::numeric_limits<uInt>::max(), "a page's columns are below 4 GiB");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string packed;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const std::size_t before = packed.size();
    packed.resize(before + piece_bytes);
    stream.next_out = reinterpret_cast<Bytef*>(packed.data() + before);
    stream.avail_out = static_cast<uInt>(piece_bytes);
    status = deflate(&stream, Z_FINISH);
    require_internal(status == Z_OK || status == Z_BUF_ERROR || status == Z_STREAM_END, "zlib compresses");
    packed.resize(before + piece_bytes - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : std::uint8_t{0});
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? letters[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace trainer
