#include "engine/train/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "engine/errors.h"

namespace trainer {
namespace {

DataError failed(const char* action, const std::string& path, int error) {
  return DataError(fmt::format("cannot {} {}: {}", action, path, std::strerror(error)));
}

/// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

void write_durably(const Descriptor& file, const std::string& path, std::string_view text) {
  if (file.get() < 0) throw failed("write", path, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failed("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  // What is no file on a disk, such as a pipe, says EINVAL.
  if (::fsync(file.get()) != 0 && errno != EINVAL) throw failed("write", path, errno);
}

}  // namespace

void write_file_durably(const std::string& path, std::string_view text) {
  write_durably(Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)), path, text);
}

bool write_new_file_durably(const std::string& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0 && errno == EEXIST) return false;
  write_durably(file, path, text);
  return true;
}

void append_durably(const std::string& path, std::string_view text) {
  write_durably(Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)), path, text);
}

void make_directories_durably(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  const std::string parent = fs::path(path).parent_path().string();
  if (parent != path) make_directories_durably(parent);
  const bool is_new = fs::create_directory(path, error);
  if (error) throw failed("make the folder", path, error.value());
  if (is_new) sync_directory(parent.empty() ? "." : parent);
}

void sync_directory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) throw failed("open", path, errno);
  // Some file systems cannot flush directories and say EINVAL; there is nothing more to do then.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) throw failed("flush", path, errno);
}

void replace_durably(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  if (::rename(from.c_str(), to.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) throw failed("rename", from, errno);
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
      // A file system without exchange: the old one steps aside for a moment.
      const std::string aside = from + ".old.tmp";
      if (::rename(to.c_str(), aside.c_str()) != 0) throw failed("rename", to, errno);
      if (::rename(from.c_str(), to.c_str()) != 0) throw failed("rename", from, errno);
      std::error_code ignored;
      fs::remove_all(aside, ignored);
    } else {
      std::error_code ignored;
      fs::remove_all(from, ignored);
    }
  }
  const fs::path parent = fs::path(to).parent_path();
  sync_directory(parent.empty() ? "." : parent.string());
}

void point_link(const std::string& link, const std::string& target) {
  const std::filesystem::path path(link);
  const std::string fresh = (path.parent_path() / ("." + path.filename().string() + ".tmp")).string();
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0) {
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) return;
    throw failed("make the link", fresh, errno);
  }
  if (::rename(fresh.c_str(), link.c_str()) != 0) throw failed("make the link", link, errno);
}

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw failed("open", path, errno);
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw failed("read", path, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > max_bytes) throw DataError(fmt::format("{} is larger than {} bytes", path, max_bytes));
  }
}

}  // namespace trainer
