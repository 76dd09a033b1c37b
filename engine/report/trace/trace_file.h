#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/files/gzip.h"
#include "engine/train/files/replaced_file.h"

namespace trainer {

/// A file that is written piece by piece and has its place once it is whole (ReplacedFile). A name that ends in .gz is
/// compressed (engine/files/gzip.h). Every failure is a DataError with the name.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);

  void write(std::string_view bytes);
  void finish();
  /// Bytes of the file until now; once it is finished, of all of it.
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  void flush(bool is_end);

  ReplacedFile file_;
  std::string pending_;
  std::optional<GzipCompressor> compressor_;  ///< nothing: bytes go as they are
  std::int64_t num_bytes_ = 0;
};

}  // namespace trainer
