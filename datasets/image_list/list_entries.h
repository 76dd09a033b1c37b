#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/image_files.h"
#include "engine/config/experiment.h"
#include "engine/errors.h"

namespace trainer {

/// The rows of a list of images: where the image is, and the texts of its targets.
class ListEntries {
 public:
  explicit ListEntries(std::string file) : file_(std::move(file)) {}
  void name_columns(std::string image, std::vector<std::string> targets) {
    image_column_ = std::move(image);
    target_columns_ = std::move(targets);
  }
  /// `targets`: texts, each with a NUL behind it.
  void add(std::string_view path, std::string_view targets, std::int64_t line);
  void shrink();

  std::int64_t size() const { return paths_.size(); }
  const std::string& file() const { return file_; }
  /// What the columns of paths and targets are called, or their numbers.
  const std::string& image_column() const { return image_column_; }
  const std::vector<std::string>& target_columns() const { return target_columns_; }

  /// With data.image_suffix.
  std::string_view path(std::int64_t row) const { return paths_[row]; }
  /// The texts of the targets: one for each column of a table, or of a list in JSON for each item.
  std::vector<std::string_view> targets(std::int64_t row) const;
  /// "labels.csv:3"
  std::string place(std::int64_t row) const;
  DataError error(std::int64_t row, const std::string& message) const;

 private:
  std::string file_, image_column_;
  std::vector<std::string> target_columns_;
  PathList paths_, targets_;
  std::vector<std::int64_t> lines_;
};

/// Reads a table of separated values, or JSON Lines, which begin with a brace; plain or gzip. `like`: the training
/// list, whose columns a validation list has; null of that itself. DataError with the place for what is no such list,
/// a row without a path or a target; ConfigError for columns that are not there or cannot be told.
ListEntries read_list(const DataConfig& config, const std::string& path, const ListEntries* like);

}  // namespace trainer
