#include "datasets/table/table_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "datasets/dataset_format.h"
#include "datasets/table/cell_text.h"
#include "engine/config/diagnostic.h"
#include "engine/config/text/glob.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

/// Finds columns by what a configuration calls them.
class ColumnFinder {
 public:
  ColumnFinder(const DataConfig& config, const std::string& file, std::size_t count,
               const std::vector<std::string>& names)
      : config_(config), file_(file), count_(count), names_(names) {
    for (std::size_t i = 0; i < names.size(); ++i) by_name_.try_emplace(names[i], i);
  }

  /// By name, or by number.
  std::optional<std::size_t> find(const std::string& word) const {
    if (const auto named = by_name_.find(word); named != by_name_.end()) return named->second;
    std::size_t index = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, index);
    const bool is_number = error == std::errc() && stop == end;
    return is_number && index < count_ ? std::optional(index) : std::nullopt;
  }

  /// All that it means, by name, number or pattern; ConfigError where that is none.
  std::vector<std::size_t> find_all(const std::string& word, const char* key, const SourceLocation& location) const {
    if (const auto one = find(word)) return {*one};
    std::vector<std::size_t> found;
    if (word.find('*') != std::string::npos) {
      for (std::size_t i = 0; i < names_.size(); ++i)
        if (matches_glob(word, names_[i])) found.push_back(i);
    }
    if (found.empty()) throw unknown(word, key, location);
    return found;
  }

  ConfigError unknown(const std::string& word, const char* key, const SourceLocation& location) const {
    if (names_.empty())
      return error(location,
                   fmt::format("{} '{}' is not a column of '{}', which has {} and no header", key, shortened(word),
                               file_, count_),
                   fmt::format("a number from 0 to {}", count_ - 1));
    constexpr std::size_t most_shown = 12;
    std::string known;
    for (std::size_t i = 0; i < std::min(most_shown, names_.size()); ++i)
      known += (i == 0 ? "" : ", ") + shortened(names_[i]);
    if (names_.size() > most_shown) known += ", …";
    return error(location, fmt::format("{} '{}' is not a column of '{}'", key, shortened(word), file_),
                 fmt::format("one of {}; or a number from 0 to {}", known, count_ - 1), nearest(word, names_));
  }

  ConfigError error(const SourceLocation& location, const std::string& message, const std::string& expectation,
                    std::string_view suggestion = "") const {
    if (location.file.empty()) return data_config_error(config_, message, expectation);
    return located_error(location, message, expectation, suggestion);
  }

 private:
  const DataConfig& config_;
  const std::string& file_;
  std::size_t count_;
  const std::vector<std::string>& names_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

void choose_targets(const DataConfig& config, const ColumnFinder& finder, TableColumns& columns) {
  if (config.target.empty()) columns.targets = {columns.count - 1};
  for (const std::string& word : config.target) {
    const auto found = finder.find(word);
    if (!found) throw finder.unknown(word, "data.target", config.target_location);
    if (columns.is_target(*found))
      throw finder.error(config.target_location, fmt::format("data.target names {} twice", columns.name_of(*found)),
                         "each column once");
    columns.targets.push_back(*found);
  }
}

void choose_features(const DataConfig& config, const ColumnFinder& finder, TableColumns& columns) {
  std::vector<bool> is_feature(columns.count, config.include.empty());
  for (const std::string& word : config.include)
    for (const std::size_t column : finder.find_all(word, "data.include", config.include_location))
      is_feature[column] = true;
  for (const std::string& word : config.exclude)
    for (const std::size_t column : finder.find_all(word, "data.exclude", config.exclude_location))
      is_feature[column] = false;
  for (const std::size_t target : columns.targets) is_feature[target] = false;
  for (std::size_t column = 0; column < columns.count; ++column)
    if (is_feature[column]) columns.features.push_back(column);
  if (columns.features.empty())
    throw finder.error(config.exclude.empty() ? config.include_location : config.exclude_location,
                       "no column is left as a feature", "at least one beside the target");
}

void find_entries(const DataConfig& config, const ColumnFinder& finder, TableColumns& columns) {
  columns.entries.assign(columns.count, -1);
  // What names a column goes before what a pattern says of it.
  for (const bool takes_names : {true, false}) {
    for (std::size_t i = 0; i < config.columns.size(); ++i) {
      const ColumnConfig& entry = config.columns[i];
      if (finder.find(entry.name).has_value() != takes_names) continue;
      for (const std::size_t column : finder.find_all(entry.name, "data.columns", entry.location))
        if (columns.entries[column] < 0) columns.entries[column] = static_cast<int>(i);
    }
  }
}

}  // namespace

std::string TableColumns::name_of(std::size_t column) const {
  return column < names.size() ? fmt::format("column '{}'", names[column]) : fmt::format("column {}", column);
}

std::string TableColumns::key_of(std::size_t column) const {
  if (column >= names.size()) return fmt::format("{}", column);
  return yaml_word(names[column]);
}

bool TableColumns::is_target(std::size_t column) const {
  return std::find(targets.begin(), targets.end(), column) != targets.end();
}

TableColumns choose_columns(const DataConfig& config, const std::string& file, std::size_t count,
                            std::vector<std::string> names) {
  TableColumns columns;
  columns.count = count;
  columns.names = std::move(names);
  const ColumnFinder finder(config, file, count, columns.names);
  choose_targets(config, finder, columns);
  choose_features(config, finder, columns);
  find_entries(config, finder, columns);
  return columns;
}

}  // namespace trainer
