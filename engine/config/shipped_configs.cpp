#include "engine/config/shipped_configs.h"

#include <system_error>

namespace trainer {

std::filesystem::path find_shipped_config(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path executable_folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  // Programs stand in build/NAME, tests one folder below.
  for (const fs::path& folder : {fs::path(""), executable_folder / "../..", executable_folder / "../../..",
                                 executable_folder / "../share/trainer"}) {
    fs::path found = (folder / "configs" / path).lexically_normal();
    if (fs::exists(found, ignored)) return found;
  }
  return {};
}

}  // namespace trainer
