#include "datasets/prediction/input_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/errors.h"

namespace trainer {

InputPaths::InputPaths(const std::vector<std::string>& arguments, IsWanted is_wanted, NextLine next_line)
    : is_wanted_(std::move(is_wanted)), next_line_(std::move(next_line)) {
  bool has_lines = false;
  for (const std::string& argument : arguments) {
    if (argument != "-") {
      sources_.push_back(source_of(argument));
      continue;
    }
    if (std::exchange(has_lines, true)) throw ConfigError("'-' reads all lines that there are; it stands once");
    Source& lines = sources_.emplace_back();
    lines.is_lines = true;
  }
}

InputPaths::Source InputPaths::source_of(const std::string& path) {
  Source source;
  source.path = path;
  source.is_folder = is_folder(path);
  if (!source.is_folder) return source;
  while (source.path.size() > 1 && source.path.ends_with('/')) source.path.pop_back();
  num_linked_folders_ += list_files(source.path, "", [&](std::string_view file) {
    if (is_wanted_(file))
      source.files.add(file);
    else
      ++num_other_files_;
  });
  source.files.shrink();
  return source;
}

std::string InputPaths::path_of(const Source& source, std::int64_t file) {
  if (!source.is_folder) return source.path;
  return source.path == "/" ? fmt::format("/{}", source.files[file]) : path_below(source.path, source.files[file]);
}

bool InputPaths::next(std::string& path, std::string& below) {
  const auto take = [&](const Source& source, std::int64_t file) {
    below = source.is_folder ? std::string(source.files[file]) : std::filesystem::path(source.path).filename().string();
    path = path_of(source, file);
  };
  const auto num_files = [](const Source& source) { return source.is_folder ? source.files.size() : 1; };
  while (current_ < sources_.size()) {
    const Source& source = sources_[current_];
    if (!source.is_lines) {
      if (file_ < num_files(source)) {
        take(source, file_++);
        return true;
      }
    } else {
      if (of_line_ && file_of_line_ < num_files(*of_line_)) {
        take(*of_line_, file_of_line_++);
        return true;
      }
      std::string line;
      if (next_line_(line)) {
        if (line.ends_with('\r')) line.pop_back();
        of_line_.reset();
        file_of_line_ = 0;
        if (line.empty()) continue;
        path = line;
        below.clear();
        of_line_ = source_of(line);
        continue;
      }
    }
    ++current_;
    file_ = 0;
  }
  return false;
}

bool InputPaths::has_lines() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& source) { return source.is_lines; });
}

void InputPaths::for_each(const std::function<void(const std::string& path)>& visit) const {
  for (const Source& source : sources_) {
    if (!source.is_folder && !source.is_lines) visit(source.path);
    for (std::int64_t i = 0; i < source.files.size(); ++i) visit(path_of(source, i));
  }
}

std::vector<std::string> InputPaths::remarks() const {
  std::vector<std::string> remarks;
  if (num_other_files_ > 0)
    remarks.push_back(fmt::format(
        "{} in folders {} left out: by {} no input",
        num_other_files_ == 1 ? std::string("1 file") : fmt::format("{} files", num_other_files_),
        num_other_files_ == 1 ? "is" : "are", num_other_files_ == 1 ? "its name it is" : "their names they are"));
  if (num_linked_folders_ > 0)
    remarks.push_back(fmt::format("links to folders are not followed: {} of them", num_linked_folders_));
  return remarks;
}

}  // namespace trainer
