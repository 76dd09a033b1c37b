#include "engine/memory/control_groups.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

namespace trainer::test {

namespace fs = std::filesystem;

TEST_CASE("The folders of a controller are those of the process's groups and of all above them") {
  const fs::path root = fs::temp_directory_path() / ("trainer_control_groups_" + std::to_string(getpid()));
  fs::create_directories(root / "proc/self");
  std::ofstream(root / "proc/self/cgroup") << "5:cpu,cpuacct:/a/b\n4:memory:/\nnonsense\n0::/c:d\n";
  const auto folders_of = [&](const char* controller) {
    std::string text;
    for (const ControlGroupFolder& folder : control_group_folders(controller, root))
      text += std::to_string(folder.version) + " " + folder.path.lexically_relative(root / "sys/fs").string() + "\n";
    return text;
  };
  CHECK(folders_of("cpu") == "1 cgroup/cpu/a/b\n1 cgroup/cpu/a\n1 cgroup/cpu\n2 cgroup/c:d\n2 cgroup\n");
  CHECK(folders_of("memory") == "1 cgroup/memory\n2 cgroup/c:d\n2 cgroup\n");
  fs::remove_all(root);
  CHECK(control_group_folders("cpu", root).empty());
}

}  // namespace trainer::test
