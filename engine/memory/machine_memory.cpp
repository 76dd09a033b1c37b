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

#include "engine/memory/control_groups.h"

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
    const std::string_view blanks = " \t";
    if (!line.starts_with(key) || line.size() == key.size() || blanks.find(line[key.size()]) == blanks.npos) continue;
    const std::size_t start = line.find_first_not_of(blanks, key.size());
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

/// Where `limit`, a line of /proc/self/limits, is set: lowers what is available to what it leaves beside `used`, a
/// field of /proc/self/status.
void lower_to_limit(const fs::path& process, std::string_view limit, std::string_view used, MachineMemory& memory) {
  const std::optional<std::int64_t> num_bytes = read_field(process / "limits", limit);
  if (!num_bytes) return;  // "unlimited"
  const std::int64_t used_bytes = read_field(process / "status", used).value_or(0) * 1024;
  memory.available = std::min(memory.available, std::max<std::int64_t>(*num_bytes - used_bytes, 0));
}

}  // namespace

MachineMemory machine_memory(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  const auto kibibytes = [&](std::string_view key) {
    const std::optional<std::int64_t> value = read_field(meminfo, key);
    return value ? *value * 1024 : unlimited;
  };
  MachineMemory memory{kibibytes("MemTotal:"), kibibytes("MemAvailable:")};

  for (const ControlGroupFolder& folder : control_group_folders("memory", root))
    lower_to_group(folder.path, folder.version == 2 ? version2 : version1, memory);
  if (memory.total == unlimited) memory.total = 0;
  if (memory.available == unlimited) memory.available = memory.total;
  lower_to_limit(root / "proc/self", "Max address space", "VmSize:", memory);
  lower_to_limit(root / "proc/self", "Max data size", "VmData:", memory);
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

std::int64_t peak_resident_bytes() { return read_field("/proc/self/status", "VmHWM:").value_or(0) * 1024; }

}  // namespace trainer
