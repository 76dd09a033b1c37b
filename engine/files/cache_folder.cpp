#include "engine/files/cache_folder.h"

#include <cstdlib>
#include <filesystem>

namespace trainer {
namespace {

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::optional<std::string> cache_folder() {
  std::filesystem::path folder = environment_variable("XDG_CACHE_HOME");
  if (folder.empty()) {
    const std::string home = environment_variable("HOME");
    if (home.empty()) return std::nullopt;
    folder = std::filesystem::path(home) / ".cache";
  }
  return (folder / "trainer").string();
}

}  // namespace trainer
