#include "engine/files/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "engine/errors.h"

namespace trainer {

struct GzipCompressor::Stream {
  z_stream zlib{};
  std::array<char, std::size_t{1} << 16> piece{};
};

GzipCompressor::GzipCompressor() : stream_(std::make_unique<Stream>()) {
  constexpr int gzip_window = 15 + 16;  // the largest, in gzip's frame
  constexpr int usual_memory = 8;
  require_internal(deflateInit2(&stream_->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, usual_memory,
                                Z_DEFAULT_STRATEGY) == Z_OK,
                   "zlib compresses");
}

GzipCompressor::~GzipCompressor() { deflateEnd(&stream_->zlib); }

void GzipCompressor::compress(std::string_view bytes, bool is_end, std::string& compressed) {
  z_stream& zlib = stream_->zlib;
  do {
    const std::size_t count = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    zlib.avail_in = static_cast<uInt>(count);
    bytes.remove_prefix(count);
    do {
      zlib.next_out = reinterpret_cast<Bytef*>(stream_->piece.data());
      zlib.avail_out = static_cast<uInt>(stream_->piece.size());
      const int status = deflate(&zlib, is_end && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
      // Z_BUF_ERROR: there was nothing to do.
      require_internal(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "zlib compresses");
      compressed.append(stream_->piece.data(), stream_->piece.size() - zlib.avail_out);
    } while (zlib.avail_out == 0);
  } while (!bytes.empty());
}

std::string gzip_of(std::string_view bytes) {
  std::string compressed;
  GzipCompressor().compress(bytes, /*is_end=*/true, compressed);
  return compressed;
}

}  // namespace trainer
