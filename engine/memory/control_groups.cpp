#include "engine/memory/control_groups.h"

#include <fstream>
#include <string>

namespace trainer {

namespace fs = std::filesystem;

std::vector<ControlGroupFolder> control_group_folders(std::string_view controller, const fs::path& root) {
  std::vector<ControlGroupFolder> folders;
  const fs::path mount = root / "sys/fs/cgroup";
  // Lines are "number:controllers:path"; version 2 has the number 0 and no controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const int version = controllers == ",," ? 2 : 1;
    if (version == 1 && controllers.find("," + std::string(controller) + ",") == std::string::npos) continue;
    const fs::path top = version == 2 ? mount : mount / controller;
    fs::path group = fs::path(line.substr(second + 1)).relative_path().lexically_normal();
    for (; !group.empty() && group != "."; group = group.parent_path()) folders.push_back({top / group, version});
    folders.push_back({top, version});
  }
  return folders;
}

}  // namespace trainer
