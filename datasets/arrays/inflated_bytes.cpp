#include "datasets/arrays/inflated_bytes.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <new>

namespace trainer {

struct InflatedBytes::Stream {
  z_stream zlib{};
  bool ended = false;

  Stream() {
    constexpr int without_header = -MAX_WBITS;
    if (inflateInit2(&zlib, without_header) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { inflateEnd(&zlib); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

InflatedBytes::InflatedBytes(const ArrayFile& file, std::uint64_t begin, std::uint64_t stored_bytes)
    : file_(file), next_(begin), end_(begin + stored_bytes), stream_(std::make_unique<Stream>()) {
  constexpr std::uint64_t most_buffered = std::uint64_t{64} << 10;
  buffer_.resize(static_cast<std::size_t>(std::min(stored_bytes, most_buffered)));
}

InflatedBytes::~InflatedBytes() = default;

void InflatedBytes::read(void* to, std::size_t num_bytes) {
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  auto* next = static_cast<Bytef*>(to);
  z_stream& zlib = stream_->zlib;
  while (num_bytes > 0) {
    if (zlib.avail_in == 0 && next_ < end_) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), end_ - next_));
      file_.read(next_, count, buffer_.data());
      next_ += count;
      zlib.next_in = buffer_.data();
      zlib.avail_in = static_cast<uInt>(count);
    }
    const std::size_t wanted = std::min(num_bytes, most_at_once);
    zlib.next_out = next;
    zlib.avail_out = static_cast<uInt>(wanted);
    const int result = stream_->ended ? Z_BUF_ERROR : inflate(&zlib, Z_NO_FLUSH);
    const std::size_t count = wanted - zlib.avail_out;
    next += count;
    num_bytes -= count;
    num_unpacked_ += count;
    stream_->ended = stream_->ended || result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    const bool is_at_end = stream_->ended || (zlib.avail_in == 0 && next_ == end_);
    if (num_bytes > 0 && count == 0 && is_at_end)
      throw array_error(file_.path(),
                        fmt::format("a deflated array ends after {} unpacked bytes, {} more were expected",
                                    num_unpacked_, num_bytes));
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      throw array_error(file_.path(), fmt::format("a deflated array is damaged after {} unpacked bytes: {}",
                                                  num_unpacked_, zlib.msg != nullptr ? zlib.msg : "unknown contents"));
  }
}

}  // namespace trainer
