#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/image_files.h"

namespace trainer {

/// The next line of a list of paths; false at its end.
using NextLine = std::function<bool(std::string& line)>;

/// The files that arguments name, in order: a file is itself, a folder those in and below it whose names are wanted, as
/// list_files() gives them, and `-` the paths that lines name, one each.
class InputPaths {
 public:
  using IsWanted = std::function<bool(std::string_view path)>;

  /// Folders among `arguments` are listed at once. `next_line` is asked where `-` is among them. Throws DataError for a
  /// folder that cannot be read, ConfigError where `-` is there twice.
  InputPaths(const std::vector<std::string>& arguments, IsWanted is_wanted, NextLine next_line);

  /// The next file, and its path below the folder it was found in, or its name; false where there is none. Throws
  /// DataError for a folder that a line names and that cannot be read: `path` is its own then, and the next call goes
  /// on behind it.
  bool next(std::string& path, std::string& below);
  /// Whether a list of paths is among the arguments, so that what comes is not known.
  bool has_lines() const;
  /// Calls `visit` with each file that is known, in order.
  void for_each(const std::function<void(const std::string& path)>& visit) const;
  /// Sentences about what was left out until now.
  std::vector<std::string> remarks() const;

 private:
  /// A file, or those of a folder.
  struct Source {
    std::string path;
    bool is_folder = false, is_lines = false;
    PathList files;  ///< below the folder
  };

  Source source_of(const std::string& path);
  static std::string path_of(const Source& source, std::int64_t file);

  IsWanted is_wanted_;
  NextLine next_line_;
  std::vector<Source> sources_;
  std::size_t current_ = 0;        ///< of the sources
  std::int64_t file_ = 0;          ///< of the current one
  std::optional<Source> of_line_;  ///< what the last line named, while it has files left
  std::int64_t file_of_line_ = 0;
  std::int64_t num_other_files_ = 0, num_linked_folders_ = 0;
};

}  // namespace trainer
