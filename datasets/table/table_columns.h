#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// The columns of a file: what they are called, which are read, and what data.columns says of them.
struct TableColumns {
  std::size_t count = 0;
  std::vector<std::string> names;     ///< empty without a header
  std::vector<std::size_t> targets;   ///< in the order of data.target
  std::vector<std::size_t> features;  ///< ascending
  std::vector<int> entries;           ///< by column: of DataConfig::columns; -1: none

  /// "column 'price'", "column 3": in messages.
  std::string name_of(std::size_t column) const;
  /// As a key or a value of the configuration names it.
  std::string key_of(std::size_t column) const;
  bool is_target(std::size_t column) const;
  const ColumnConfig* entry_of(const DataConfig& config, std::size_t column) const {
    return entries[column] < 0 ? nullptr : &config.columns[static_cast<std::size_t>(entries[column])];
  }
};

/// What data.target, data.include, data.exclude and data.columns choose among the columns of `file`. A column is named
/// by its name, else by its number from 0, else by a pattern; of patterns in data.columns the first that matches holds.
/// ConfigError for one that is not there, and where no feature is left.
TableColumns choose_columns(const DataConfig& config, const std::string& file, std::size_t count,
                            std::vector<std::string> names);

}  // namespace trainer
