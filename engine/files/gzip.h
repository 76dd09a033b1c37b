#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace trainer {

/// Compresses piece by piece into gzip's format (RFC 1952), without a name or time inside, so that the same contents
/// are the same bytes.
class GzipCompressor {
 public:
  GzipCompressor();
  ~GzipCompressor();
  GzipCompressor(const GzipCompressor&) = delete;
  GzipCompressor& operator=(const GzipCompressor&) = delete;

  /// Appends to `compressed` what has become of the bytes until now; `is_end`: all of them, and no more follow.
  void compress(std::string_view bytes, bool is_end, std::string& compressed);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

std::string gzip_of(std::string_view bytes);

}  // namespace trainer
