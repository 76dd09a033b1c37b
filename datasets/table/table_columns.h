#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// The columns of a file: which is the target, and what they are called in messages.
struct TableColumns {
  std::size_t count = 0;
  std::size_t target = 0;
  std::vector<std::string> names;  ///< empty without a header

  std::string name_of(std::size_t column) const;
};

/// The column of data.target. ConfigError where `file` has none such.
std::size_t find_target(const DataConfig& config, const std::string& file, const TableColumns& columns);

/// DataError where a validation file has other columns than the training file.
void check_same_columns(const std::string& train, const TableColumns& columns, const std::string& validation,
                        const TableColumns& others);

}  // namespace trainer
