#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer::cuda {

/// A place for caches that goes with the test, and holds for the process meanwhile.
class CacheHome {
 public:
  CacheHome() {
    std::filesystem::remove_all(path_);
    REQUIRE(setenv("XDG_CACHE_HOME", path_.c_str(), 1) == 0);
    REQUIRE(unsetenv("TRAINER_SCRATCH_CACHE") == 0);
  }
  ~CacheHome() {
    setenv("TRAINER_SCRATCH_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(path_);
  }
  CacheHome(const CacheHome&) = delete;
  CacheHome& operator=(const CacheHome&) = delete;

  std::string file() const { return path_ / "trainer" / "scratch.txt"; }
  std::vector<std::filesystem::path> files() const {
    if (!std::filesystem::exists(path_)) return {};
    std::vector<std::filesystem::path> files;
    for (const std::filesystem::directory_entry& entry : std::filesystem::recursive_directory_iterator(path_))
      if (entry.is_regular_file()) files.push_back(entry.path());
    return files;
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("known_scratch_test." + std::to_string(getpid()));
};

}  // namespace trainer::cuda
