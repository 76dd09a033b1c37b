#include "datasets/table/table_rows.h"

#include <fmt/format.h>

#include <limits>

#include "datasets/table/cell_text.h"
#include "datasets/table/missing_rules.h"

namespace trainer {

TableRows::TableRows(const DataConfig& config, const std::string& path, const std::string& train_path,
                     const TableSurvey& survey)
    : config_(config), train_path_(train_path), survey_(survey), reader_(config, path, train_path, survey.columns) {}

bool TableRows::next() {
  while (reader_.next()) {
    if (!is_dropped()) return true;
    ++num_dropped_;
  }
  return false;
}

bool TableRows::is_dropped() const {
  for (const FeatureColumn& feature : survey_.features)
    if (feature.missing == MissingRule::drop && is_missing(feature.column)) return true;
  for (std::size_t i = 0; i < survey_.target_missing.size(); ++i)
    if (survey_.target_missing[i] == MissingRule::drop && is_missing(survey_.columns.targets[i])) return true;
  return false;
}

double TableRows::feature(std::size_t index) const {
  const FeatureColumn& feature = survey_.features[index];
  const std::size_t column = feature.column;
  if (is_missing(column)) {
    if (feature.missing != MissingRule::error) return std::numeric_limits<double>::quiet_NaN();
    throw reader_.error(column, fmt::format("no value in {}; {}", survey_.columns.name_of(column),
                                            missing_hint(survey_.columns, column, feature.kind)));
  }
  if (feature.kind == ColumnKind::number) return reader_.number(column, largest_feature(config_));
  return feature.categories.find(reader_.text(column)).value_or(-1);
}

double TableRows::target(std::size_t index) const {
  const std::size_t column = survey_.columns.targets[index];
  if (is_missing(column))
    throw reader_.error(column, fmt::format("no value in {}; {}", survey_.columns.name_of(column),
                                            missing_hint(survey_.columns, column, std::nullopt)));
  const double value = reader_.number(column, largest_target(config_));
  if (config_.targets_are_probabilities && (value < 0 || value > 1))
    throw reader_.error(column, fmt::format("{} in {}, expected a target from 0 to 1: loss bce_with_logits takes "
                                            "probabilities",
                                            value, survey_.columns.name_of(column)));
  return value;
}

std::int32_t TableRows::the_class() const {
  const std::size_t column = survey_.columns.targets.front();
  if (is_missing(column)) {
    if (survey_.has_missing_class) return static_cast<std::int32_t>(survey_.classes.size());
    throw reader_.error(column, fmt::format("no value in {}; {}", survey_.columns.name_of(column),
                                            missing_hint(survey_.columns, column, std::nullopt)));
  }
  const std::string_view label = reader_.text(column);
  if (const auto found = survey_.classes.find(label)) return *found;
  throw reader_.error(column, fmt::format("class '{}' in {} does not occur in {}", shortened_cell(label),
                                          survey_.columns.name_of(column), train_path_));
}

}  // namespace trainer
