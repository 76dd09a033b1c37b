#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace trainer {

/// A folder of files that limit the process, of version 1 or 2 of control groups.
struct ControlGroupFolder {
  std::filesystem::path path;
  int version = 2;
};

/// The folders in which a limit of `controller` ("memory", "cpu") on this process may stand: of its groups in
/// /proc/self/cgroup and of all above them up to the mount, since a limit anywhere on the way binds. In a container a
/// group may be known under a path that is not mounted there; the mount itself is then the container's group. Files are
/// looked for under `root`; the folders need not exist.
std::vector<ControlGroupFolder> control_group_folders(std::string_view controller,
                                                      const std::filesystem::path& root = "/");

}  // namespace trainer
