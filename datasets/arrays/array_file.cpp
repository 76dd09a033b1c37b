#include "datasets/arrays/array_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/config/text/utf8_text.h"

namespace trainer {

DataError array_error(std::string_view path, std::string_view message) {
  return DataError(fmt::format("{}: {}", printable(path), printable(message)));
}

ArrayFile::ArrayFile(const std::string& path) : path_(path) {
  struct stat status {};
  // What is no file may block whoever opens it.
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw DataError(fmt::format("'{}' is not a file", path));
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw DataError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  if (fstat(descriptor_, &status) != 0) {
    const int reason = errno;
    close(descriptor_);
    throw DataError(fmt::format("cannot read the size of '{}': {}", path, std::strerror(reason)));
  }
  num_bytes_ = static_cast<std::uint64_t>(status.st_size);
  seconds_ = status.st_mtim.tv_sec;
  nanoseconds_ = status.st_mtim.tv_nsec;
}

ArrayFile::~ArrayFile() { close(descriptor_); }

void ArrayFile::read(std::uint64_t offset, std::size_t num_bytes, void* to) const {
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  auto* next = static_cast<std::byte*>(to);
  while (num_bytes > 0) {
    const ssize_t count = pread(descriptor_, next, std::min(num_bytes, most_at_once), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw DataError(fmt::format("{}: cannot read at offset {}: {}", path_, offset, std::strerror(errno)));
    if (count == 0)
      throw DataError(
          fmt::format("{}: ends at offset {}, but had {} bytes when it was opened", path_, offset, num_bytes_));
    next += count;
    offset += static_cast<std::uint64_t>(count);
    num_bytes -= static_cast<std::size_t>(count);
  }
}

void ArrayFile::check_unchanged() const {
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == num_bytes_ &&
      status.st_mtim.tv_sec == seconds_ && status.st_mtim.tv_nsec == nanoseconds_)
    return;
  throw DataError(fmt::format("{}: the file was changed while it was read; start again", path_));
}

}  // namespace trainer
