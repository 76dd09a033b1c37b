#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzzed_file.h"

namespace trainer {

/// A folder of links to files, for what is read by a folder's path.
class FuzzedFolder {
 public:
  /// A name and the path of a file each.
  explicit FuzzedFolder(const std::vector<std::pair<std::string, std::string>>& files) {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainer-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder");
    path_ = pattern;
    for (const auto& [name, path] : files) std::filesystem::create_symlink(path, path_ / name);
  }
  ~FuzzedFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzedFolder(const FuzzedFolder&) = delete;
  FuzzedFolder& operator=(const FuzzedFolder&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace trainer
