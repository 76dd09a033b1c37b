#include "datasets/table/table_preprocessing.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "engine/config/fields/column_fields.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

std::string plain_name(const TableColumns& columns, std::size_t column) {
  return column < columns.names.size() ? escaped(columns.names[column]) : fmt::format("column {}", column);
}

PreprocessedColumn column_of(const TableSurvey& survey, std::size_t index, const ColumnStatistics& statistics) {
  const FeatureColumn& feature = survey.features[index];
  PreprocessedColumn column;
  column.name = plain_name(survey.columns, feature.column);
  column.is_category = feature.kind == ColumnKind::category;
  for (const std::string& name : feature.categories.names()) column.categories.push_back(escaped(name));
  for (std::size_t i = 0; i < column.categories.size(); ++i)
    if (!statistics.is_known(static_cast<std::int64_t>(i))) column.unseen.push_back(column.categories[i]);
  column.has_missing_category = feature.has_missing_category;
  column.is_missing_unseen =
      column.has_missing_category && !statistics.is_known(static_cast<std::int64_t>(column.categories.size()));
  if (!survey.is_filled[index]) return column;
  column.missing = missing_choices().name_of(feature.missing);
  column.num_missing = feature.num_missing;
  if (!column.is_category)
    column.fill_number = statistics.fill;
  else if (feature.missing == MissingRule::mode)
    column.fill_category = column.categories[static_cast<std::size_t>(statistics.fill)];
  return column;
}

}  // namespace

Preprocessing table_preprocessing(const DataConfig& config, const TableSurvey& survey,
                                  const std::vector<ColumnStatistics>& statistics,
                                  const std::vector<ColumnStatistics>& target_statistics,
                                  const std::vector<std::int64_t>& num_unknown) {
  Preprocessing result;
  const auto add_feature = [&](std::string name, const ColumnStatistics& its) {
    result.features.push_back(std::move(name));
    if (!config.standardize) return;
    result.mean.push_back(its.whole_mean());
    result.std.push_back(its.std);
    result.origin.push_back(its.origin);
    result.offset.push_back(its.mean);
  };
  const ColumnStatistics of_category;
  for (std::size_t i = 0; i < survey.features.size(); ++i) {
    PreprocessedColumn column = column_of(survey, i, statistics[i]);
    column.num_unknown = num_unknown[i];
    if (!column.is_category) add_feature(column.name, statistics[i]);
    for (const std::string& category : column.categories)
      add_feature(fmt::format("{}={}", column.name, category), of_category);
    if (column.has_missing_category) add_feature(fmt::format("{}=(missing)", column.name), of_category);
    result.columns.push_back(std::move(column));
  }
  for (const std::size_t target : survey.columns.targets) result.targets.push_back(plain_name(survey.columns, target));
  if (config.standardize_target) {
    for (const ColumnStatistics& each : target_statistics) {
      result.target_mean.push_back(each.whole_mean());
      result.target_std.push_back(each.std);
    }
  }
  for (const std::string& name : survey.classes.names()) result.classes.push_back(escaped(name));
  if (survey.has_missing_class) result.classes.emplace_back("(missing)");
  result.num_dropped = survey.num_train_dropped;
  result.num_validation_dropped = survey.num_validation_dropped;
  return result;
}

}  // namespace trainer
