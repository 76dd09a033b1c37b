#include "datasets/table/table_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "datasets/dataset_format.h"

namespace trainer {

std::string TableColumns::name_of(std::size_t column) const {
  return column < names.size() ? fmt::format("column '{}'", names[column]) : fmt::format("column {}", column);
}

std::size_t find_target(const DataConfig& config, const std::string& file, const TableColumns& columns) {
  if (config.target.empty()) return columns.count - 1;
  const auto named = std::find(columns.names.begin(), columns.names.end(), config.target);
  if (named != columns.names.end()) return static_cast<std::size_t>(named - columns.names.begin());
  std::size_t index = 0;
  const char* const end = config.target.data() + config.target.size();
  const auto [stop, error] = std::from_chars(config.target.data(), end, index);
  const bool is_number = error == std::errc() && stop == end;
  if (is_number && index < columns.count) return index;
  if (columns.names.empty())
    throw data_config_error(config,
                            fmt::format("data.target '{}' is not a column of '{}', which has {} and no header",
                                        config.target, file, columns.count),
                            fmt::format("a number from 0 to {}", columns.count - 1));
  constexpr std::size_t most_shown = 12;
  std::string known;
  for (std::size_t i = 0; i < std::min(most_shown, columns.names.size()); ++i)
    known += (i == 0 ? "" : ", ") + columns.names[i];
  if (columns.names.size() > most_shown) known += ", …";
  throw data_config_error(config, fmt::format("data.target '{}' is not a column of '{}'", config.target, file),
                          fmt::format("one of {}; or a number from 0 to {}", known, columns.count - 1));
}

void check_same_columns(const std::string& train, const TableColumns& columns, const std::string& validation,
                        const TableColumns& others) {
  if (columns.count != others.count)
    throw DataError(fmt::format("{} has {} columns, but {} has {}", validation, others.count, train, columns.count));
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (columns.names[i] != others.names[i])
      throw DataError(fmt::format("{}:1: column {} is '{}', but '{}' in {}", validation, i, others.names[i],
                                  columns.names[i], train));
  }
}

}  // namespace trainer
