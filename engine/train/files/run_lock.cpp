#include "engine/train/files/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

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

/// "fe:00:10969134": of a file system in hexadecimal numbers, and of a file in it; nothing where it is none.
std::optional<std::pair<std::uint64_t, std::uint64_t>> read_place(const std::string& text) {
  unsigned int major_number = 0, minor_number = 0;
  unsigned long long node = 0;
  int length = 0;
  if (std::sscanf(text.c_str(), "%8x:%8x:%20llu%n", &major_number, &minor_number, &node, &length) != 3 ||
      static_cast<std::size_t>(length) != text.size())
    return std::nullopt;
  return std::pair{static_cast<std::uint64_t>(makedev(major_number, minor_number)), static_cast<std::uint64_t>(node)};
}

}  // namespace

std::optional<HeldFolders> HeldFolders::read(const std::string& list) {
  std::ifstream file(list);
  if (!file) return std::nullopt;
  HeldFolders held;
  for (std::string line; std::getline(file, line);) {
    // "1: FLOCK  ADVISORY  WRITE 3568 fe:00:10969134 0 EOF"; one that waits for a lock has "->" behind its number.
    std::istringstream words(line);
    std::string number, kind, strength, access, place;
    std::int64_t pid = 0;
    if (!(words >> number >> kind >> strength >> access >> pid >> place) || kind != "FLOCK" || access != "WRITE")
      continue;
    if (const auto found = read_place(place)) held.locks_.push_back({pid, found->first, found->second});
  }
  return held;
}

std::int64_t HeldFolders::holder_of(const std::string& folder, std::int64_t writer) const {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return 0;
  const auto found = std::ranges::find_if(locks_, [&](const Lock& lock) {
    return lock.node == status.st_ino && (lock.device == status.st_dev || (writer > 0 && lock.pid == writer));
  });
  return found == locks_.end() ? 0 : found->pid;
}

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
