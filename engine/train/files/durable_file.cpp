#include "engine/train/files/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/errors.h"
#include "engine/files/file_descriptor.h"

namespace trainer {
namespace {

DataError failed(const char* action, const std::string& path, int error) {
  return DataError(fmt::format("cannot {} {}: {}", action, path, std::strerror(error)));
}

constexpr std::string_view aside_ending = ".aside";

/// Hidden beside the path.
std::string aside_of(const std::filesystem::path& path) {
  return (path.parent_path() / fmt::format(".{}{}", path.filename().string(), aside_ending)).string();
}

void write_durably(const FileDescriptor& file, const std::string& path, std::string_view text) {
  if (file.number() < 0) throw failed("write", path, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failed("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  // What is no file on a disk, such as a pipe, says EINVAL.
  if (::fsync(file.number()) != 0 && errno != EINVAL) throw failed("write", path, errno);
}

}  // namespace

void write_file_durably(const std::string& path, std::string_view text) {
  write_durably(FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)), path, text);
}

bool write_new_file_durably(const std::string& path, std::string_view text) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.number() < 0 && errno == EEXIST) return false;
  write_durably(file, path, text);
  return true;
}

void append_durably(const std::string& path, std::string_view text) {
  write_durably(FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)), path, text);
}

void make_directories_durably(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  const std::string parent = fs::path(path).parent_path().string();
  if (parent != path) make_directories_durably(parent);
  const bool is_new = fs::create_directory(path, error);
  std::error_code ignored;
  if (error && fs::exists(path, ignored) && !fs::is_directory(path, ignored))
    throw DataError(fmt::format("'{}' is no folder, and has to be one", path));
  if (error) throw failed("make the folder", path, error.value());
  if (is_new) sync_directory(parent.empty() ? "." : parent);
}

void sync_directory(const std::string& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.number() < 0) throw failed("open", path, errno);
  // Some file systems cannot flush directories and say EINVAL; there is nothing more to do then.
  if (::fsync(directory.number()) != 0 && errno != EINVAL) throw failed("flush", path, errno);
}

void replace_durably(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  if (::rename(from.c_str(), to.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) throw failed("rename", from, errno);
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
      // A file system without exchange: the old one steps aside for a moment.
      const std::string aside = aside_of(to);
      std::error_code ignored;
      fs::remove_all(aside, ignored);
      if (::rename(to.c_str(), aside.c_str()) != 0) throw failed("rename", to, errno);
      if (::rename(from.c_str(), to.c_str()) != 0) {
        const int error = errno;
        ::rename(aside.c_str(), to.c_str());
        throw failed("rename", from, error);
      }
      fs::remove_all(aside, ignored);
    } else {
      std::error_code ignored;
      fs::remove_all(from, ignored);
    }
  }
  const fs::path parent = fs::path(to).parent_path();
  sync_directory(parent.empty() ? "." : parent.string());
}

void recover_replaced(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> aside;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 1 + aside_ending.size() && name.starts_with(".") && name.ends_with(aside_ending))
      aside.push_back(entry.path());
  }
  for (const fs::path& path : aside) {
    const std::string name = path.filename().string();
    const fs::path place = path.parent_path() / name.substr(1, name.size() - 1 - aside_ending.size());
    std::error_code ignored;
    if (fs::exists(place, ignored))
      fs::remove_all(path, ignored);
    else
      fs::rename(path, place, ignored);
  }
  if (!aside.empty()) sync_directory(directory);
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
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) throw failed("open", path, errno);
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t count = ::read(file.number(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw failed("read", path, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > max_bytes) throw DataError(fmt::format("{} is larger than {} bytes", path, max_bytes));
  }
}

}  // namespace trainer
