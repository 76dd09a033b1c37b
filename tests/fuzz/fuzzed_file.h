#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace trainer {

/// A file in memory with a path, for what is read by path.
class FuzzedFile {
 public:
  FuzzedFile() : descriptor_(memfd_create("fuzzed", 0)) {
    if (descriptor_ < 0) throw std::runtime_error("cannot make a file in memory");
  }
  ~FuzzedFile() { close(descriptor_); }
  FuzzedFile(const FuzzedFile&) = delete;
  FuzzedFile& operator=(const FuzzedFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  /// In the place of what it held.
  void write(std::string_view bytes) const {
    const bool is_written = ftruncate(descriptor_, 0) == 0 &&
                            pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    if (!is_written) throw std::runtime_error("cannot write a file in memory");
  }

 private:
  int descriptor_;
};

}  // namespace trainer
