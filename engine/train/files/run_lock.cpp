#include "engine/train/files/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "engine/errors.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

/// The folder and those above it that are missing, the innermost first.
std::vector<std::string> missing_folders(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (std::filesystem::path path = folder; !path.empty() && !std::filesystem::exists(path, ignored);
       path = path.parent_path())
    missing.push_back(path.string());
  return missing;
}

bool is_file_at(int file, const std::string& path) {
  struct stat held {
  }, found{};
  return fstat(file, &held) == 0 && stat(path.c_str(), &found) == 0 && held.st_dev == found.st_dev &&
         held.st_ino == found.st_ino;
}

}  // namespace

RunLock::RunLock(const std::string& folder) : made_(missing_folders(folder)) {
  do make_directories_durably(folder);
  while (!hold(folder));
}

RunLock::~RunLock() {
  for (const std::string& folder : made_)
    if (rmdir(folder.c_str()) != 0) break;  // before another process can hold it
  if (folder_ >= 0) close(folder_);
}

bool RunLock::hold(const std::string& folder) {
  folder_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) return errno != ENOENT;
  const bool is_refused = flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!is_refused && is_file_at(folder_, folder)) return true;
  close(folder_);
  folder_ = -1;
  if (!is_refused) return false;
  throw DataError(fmt::format(
      "another trainer is writing to {}; wait for it, or choose another folder with output=FOLDER", folder));
}

}  // namespace trainer
