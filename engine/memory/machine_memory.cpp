#include "engine/memory/machine_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The file's first word as a number; nothing where there is no file or it says "max".
std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

/// The number behind `key` in a file of lines "key value".
std::optional<std::int64_t> read_field(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key) || line.size() == key.size() || line[key.size()] != ' ') continue;
    const std::size_t start = line.find_first_not_of(' ', key.size());
    std::int64_t value = 0;
    if (start != std::string::npos &&
        std::from_chars(line.data() + start, line.data() + line.size(), value).ec == std::errc())
      return value;
  }
  return std::nullopt;
}

/// The files of one version of control groups.
struct ControlGroupFiles {
  const char *limit, *use;
  const char *inactive_file, *active_file;  ///< fields of memory.stat
};
constexpr ControlGroupFiles version1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                        "total_active_file"};
constexpr ControlGroupFiles version2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

void lower_to_group(const fs::path& folder, const ControlGroupFiles& files, MachineMemory& memory) {
  const std::optional<std::int64_t> limit = read_number(folder / files.limit);
  if (!limit) return;
  memory.total = std::min(memory.total, *limit);
  const fs::path statistics = folder / "memory.stat";
  const std::int64_t file_bytes =
      read_field(statistics, files.inactive_file).value_or(0) + read_field(statistics, files.active_file).value_or(0);
  const std::int64_t used = std::max<std::int64_t>(read_number(folder / files.use).value_or(0) - file_bytes, 0);
  memory.available = std::min(memory.available, std::max<std::int64_t>(*limit - used, 0));
}

/// A limit anywhere up to the root binds. In a container the group may be known under a path that is not mounted here;
/// then the mount's root is the container's own group.
void lower_to_groups(const fs::path& mount, std::string_view group, const ControlGroupFiles& files,
                     MachineMemory& memory) {
  fs::path relative = fs::path(group).relative_path().lexically_normal();
  while (!relative.empty() && relative != ".") {
    lower_to_group(mount / relative, files, memory);
    relative = relative.parent_path();
  }
  lower_to_group(mount, files, memory);
}

}  // namespace

MachineMemory machine_memory(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  const auto kibibytes = [&](std::string_view key) {
    const std::optional<std::int64_t> value = read_field(meminfo, key);
    return value ? *value * 1024 : unlimited;
  };
  MachineMemory memory{kibibytes("MemTotal:"), kibibytes("MemAvailable:")};

  // Lines are "number:controllers:path"; version 2 has the number 0 and no controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  const fs::path mount = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers == ",,") lower_to_groups(mount, group, version2, memory);
    if (controllers.find(",memory,") != std::string::npos) lower_to_groups(mount / "memory", group, version1, memory);
  }
  if (memory.total == unlimited) memory.total = 0;
  if (memory.available == unlimited) memory.available = memory.total;
  return memory;
}

std::int64_t resident_bytes() noexcept {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];
  const ssize_t length = read(file, text, sizeof text);
  close(file);
  if (length <= 0) return 0;
  // "size resident shared …", in pages
  const char* const end = text + length;
  const char* const resident = std::find(static_cast<const char*>(text), end, ' ') + 1;
  std::int64_t pages = 0;
  if (resident >= end || std::from_chars(resident, end, pages).ec != std::errc()) return 0;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace trainer
