#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/errors.h"

namespace trainer {

/// Note [Arrays are read, not mapped]
/// Samples are read from their file into the batch by pread, and their file is not mapped into memory. Both go through
/// the system's file cache and copy a sample once. But a mapped file that somebody cuts off, or a disk that fails, ends
/// a process by SIGBUS, where a read returns and is told as a DataError; and mapped pages that were touched count as
/// the process's own (RssFile in VmHWM), so that a plan could not say what a run will hold. What is read this way is
/// held nowhere but in batches.
///
/// A regular file open for reading at any offset, by any number of threads. Every failure is a DataError that names it.
class ArrayFile {
 public:
  explicit ArrayFile(const std::string& path);
  ~ArrayFile();
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  const std::string& path() const { return path_; }
  /// When it was opened.
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// All of the bytes; a file that has become shorter is told as cut off.
  void read(std::uint64_t offset, std::size_t num_bytes, void* to) const;
  /// Throws where its size or time of change is not what it was when it was opened.
  void check_unchanged() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
  std::int64_t seconds_ = 0, nanoseconds_ = 0;  ///< of the last change
};

/// "PATH: message", without what a terminal would obey.
DataError array_error(std::string_view path, std::string_view message);

}  // namespace trainer
