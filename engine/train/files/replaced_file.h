#pragma once

#include <cstddef>
#include <string>

namespace trainer {

/// A file that is written beside its place, under a name that nothing had, and moved there when it is whole. Where it
/// is not finished nothing is left of it. Every failure is a DataError with the name of the place.
class ReplacedFile {
 public:
  /// A link is followed. Refuses a place where something is that is no regular file.
  explicit ReplacedFile(std::string path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;

  void write(const void* bytes, std::size_t num_bytes);
  /// Over what has been written at the beginning.
  void write_beginning(const void* bytes, std::size_t num_bytes);
  /// Flushes it to the disk, and moves it.
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace trainer
