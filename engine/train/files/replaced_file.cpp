#include "engine/train/files/replaced_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/errors.h"
#include "engine/train/files/durable_file.h"

namespace trainer {

ReplacedFile::ReplacedFile(std::string path) : path_(std::move(path)) {
  std::error_code failed;
  if (std::filesystem::is_symlink(path_, failed)) {
    const std::filesystem::path target = std::filesystem::weakly_canonical(path_, failed);
    if (!failed) path_ = target.string();
  }
  if (std::filesystem::exists(path_, failed) && !std::filesystem::is_regular_file(path_, failed))
    throw DataError(fmt::format("cannot write '{}': it is no file", path_));
  constexpr int most_tries = 100;
  for (int i = 0; i < most_tries && file_ < 0; ++i) {
    temporary_ = fmt::format("{}.{}-{}.tmp", path_, ::getpid(), i);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  if (file_ < 0) fail();
}

ReplacedFile::~ReplacedFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void ReplacedFile::fail() const { throw DataError(fmt::format("cannot write '{}': {}", path_, std::strerror(errno))); }

void ReplacedFile::write(const void* bytes, std::size_t num_bytes) {
  const char* from = static_cast<const char*>(bytes);
  while (num_bytes > 0) {
    const ssize_t written = ::write(file_, from, num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    from += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
}

void ReplacedFile::write_beginning(const void* bytes, std::size_t num_bytes) {
  if (::pwrite(file_, bytes, num_bytes, 0) != static_cast<ssize_t>(num_bytes)) fail();
}

void ReplacedFile::finish() {
  if (::fsync(file_) != 0 && errno != EINVAL) fail();
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0) fail();
  replace_durably(temporary_, path_);
  temporary_.clear();
}

}  // namespace trainer
