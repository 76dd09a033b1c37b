#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/train/files/replaced_file.h"

namespace trainer {

/// A file that is written piece by piece and has its place once it is whole (ReplacedFile). A name that ends in .gz is
/// compressed (RFC 1952), without a name or time inside, so that the same contents are the same bytes. Every failure is
/// a DataError with the name.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void write(std::string_view bytes);
  void finish();
  /// Bytes of the file until now; once it is finished, of all of it.
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  class Compressor;

  void flush(bool is_end);
  void put(const char* bytes, std::size_t num_bytes);

  ReplacedFile file_;
  std::string pending_;
  std::unique_ptr<Compressor> compressor_;  ///< null: bytes go as they are
  std::int64_t num_bytes_ = 0;
};

}  // namespace trainer
