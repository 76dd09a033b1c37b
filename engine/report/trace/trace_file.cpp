#include "engine/report/trace/trace_file.h"

#include <zlib.h>

#include <array>

#include "engine/errors.h"

namespace trainer {
namespace {

constexpr std::size_t pending_trace_bytes = std::size_t{1} << 18;

}  // namespace

class TraceFile::Compressor {
 public:
  Compressor() {
    constexpr int gzip_window = 15 + 16, memory_level = 8;
    require_internal(deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, memory_level,
                                  Z_DEFAULT_STRATEGY) == Z_OK,
                     "zlib compresses");
  }
  ~Compressor() { deflateEnd(&stream_); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  /// Calls `take(bytes, num_bytes)` with what has become of them.
  template <typename Take>
  void compress(std::string_view bytes, bool is_end, Take&& take) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(compressed_.data());
      stream_.avail_out = static_cast<uInt>(compressed_.size());
      deflate(&stream_, is_end ? Z_FINISH : Z_NO_FLUSH);
      take(compressed_.data(), compressed_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
  std::array<char, std::size_t{1} << 16> compressed_{};
};

TraceFile::TraceFile(const std::string& path) : file_(path) {
  if (path.ends_with(".gz")) compressor_ = std::make_unique<Compressor>();
}

TraceFile::~TraceFile() = default;

void TraceFile::write(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= pending_trace_bytes) flush(/*is_end=*/false);
}

void TraceFile::finish() {
  flush(/*is_end=*/true);
  file_.finish();
}

void TraceFile::flush(bool is_end) {
  if (compressor_)
    compressor_->compress(pending_, is_end, [&](const char* bytes, std::size_t num_bytes) { put(bytes, num_bytes); });
  else
    put(pending_.data(), pending_.size());
  pending_.clear();
}

void TraceFile::put(const char* bytes, std::size_t num_bytes) {
  file_.write(bytes, num_bytes);
  num_bytes_ += static_cast<std::int64_t>(num_bytes);
}

}  // namespace trainer
