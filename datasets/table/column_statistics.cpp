#include "datasets/table/column_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/errors.h"

namespace trainer {
namespace {

/// The values of a column in the given rows, without the cells that have none.
std::vector<double> present_values(const TableValues& values, std::size_t column,
                                   const std::vector<std::uint32_t>& rows) {
  std::vector<double> present;
  present.reserve(rows.size());
  for (const std::uint32_t row : rows)
    if (const double value = values.at(row, column); !std::isnan(value)) present.push_back(value);
  return present;
}

double median_of(std::vector<double> present) {
  const auto middle = present.begin() + static_cast<std::ptrdiff_t>(present.size() / 2);
  std::nth_element(present.begin(), middle, present.end());
  if (present.size() % 2 == 1) return *middle;
  const double below = *std::max_element(present.begin(), middle);
  return below + (*middle - below) / 2;
}

/// The most frequent value, of several the smallest.
double mode_of(std::vector<double> present) {
  std::sort(present.begin(), present.end());
  double mode = 0;
  std::ptrdiff_t most = 0;
  for (auto begin = present.begin(); begin != present.end();) {
    const auto end = std::upper_bound(begin, present.end(), *begin);
    if (end - begin > most) {
      most = end - begin;
      mode = *begin;
    }
    begin = end;
  }
  return mode;
}

/// On differences to the first value, as Note [Standardised features] says.
double mean_of(const std::vector<double>& present) {
  double sum = 0;
  for (const double value : present) sum += value - present.front();
  return present.front() + sum / static_cast<double>(present.size());
}

/// Mean and deviation of the columns that `statistics` is of, with what fills them.
void standardize(const TableValues& values, const std::vector<std::uint32_t>& rows,
                 const std::vector<std::size_t>& columns, std::vector<ColumnStatistics>& statistics) {
  const auto num_rows = static_cast<double>(rows.size());
  const auto value_of = [&](std::uint32_t row, std::size_t column) {
    const double value = values.at(row, column);
    return std::isnan(value) ? statistics[column].fill : value;
  };
  for (const std::size_t column : columns) statistics[column].origin = value_of(rows.front(), column);
  for (const std::uint32_t row : rows)
    for (const std::size_t column : columns) {
      ColumnStatistics& its = statistics[column];
      its.mean += value_of(row, column) - its.origin;
    }
  std::vector<double> squares(statistics.size());
  for (const std::size_t column : columns) statistics[column].mean /= num_rows;
  for (const std::uint32_t row : rows) {
    for (const std::size_t column : columns) {
      const ColumnStatistics& its = statistics[column];
      const double difference = value_of(row, column) - its.origin - its.mean;
      squares[column] += difference * difference;
    }
  }
  for (const std::size_t column : columns) {
    const double std = std::sqrt(squares[column] / num_rows);
    statistics[column].std = std == 0 ? 1 : std;
  }
}

void count_categories(const TableValues& values, std::size_t column, const FeatureColumn& feature,
                      const std::vector<std::uint32_t>& rows, ColumnStatistics& statistics) {
  std::vector<std::int64_t>& counts = statistics.num_with;
  counts.assign(static_cast<std::size_t>(feature.width()), 0);
  std::int64_t num_missing = 0;
  for (const std::uint32_t row : rows) {
    const double value = values.at(row, column);
    ++(std::isnan(value) ? num_missing : counts[static_cast<std::size_t>(value)]);
  }
  statistics.fill = -1;
  if (feature.has_missing_category) {
    counts.back() = num_missing;
    statistics.fill = static_cast<double>(counts.size() - 1);
  } else if (feature.missing == MissingRule::mode) {
    const auto most = std::max_element(counts.begin(), counts.end());
    if (*most == 0) return;
    statistics.fill = static_cast<double>(most - counts.begin());
    *most += num_missing;
  }
}

DataError nothing_to_fill_from(const std::string& path, const TableColumns& columns, std::size_t column) {
  return DataError(
      fmt::format("{}: no training sample has a value in {} that could stand for those without one; write "
                  "data.exclude: [{}]",
                  path, columns.name_of(column), columns.key_of(column)));
}

}  // namespace

std::vector<ColumnStatistics> statistics_of(const TableValues& values, const TableSurvey& survey,
                                            const std::vector<std::uint32_t>& rows, const std::string& path,
                                            bool standardizes) {
  std::vector<ColumnStatistics> statistics(survey.features.size());
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < survey.features.size(); ++i) {
    const FeatureColumn& feature = survey.features[i];
    if (feature.kind == ColumnKind::category) {
      count_categories(values, i, feature, rows, statistics[i]);
      if (statistics[i].fill < 0 && feature.missing == MissingRule::mode && survey.is_filled[i])
        throw nothing_to_fill_from(path, survey.columns, feature.column);
      continue;
    }
    if (standardizes) numbers.push_back(i);
    if (!survey.is_filled[i]) continue;
    std::vector<double> present = present_values(values, i, rows);
    if (present.empty()) throw nothing_to_fill_from(path, survey.columns, feature.column);
    statistics[i].fill = feature.missing == MissingRule::mean     ? mean_of(present)
                         : feature.missing == MissingRule::median ? median_of(std::move(present))
                                                                  : mode_of(std::move(present));
  }
  standardize(values, rows, numbers, statistics);
  return statistics;
}

std::vector<ColumnStatistics> target_statistics_of(const TableValues& targets, const std::vector<std::uint32_t>& rows) {
  std::vector<ColumnStatistics> statistics(targets.num_columns);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < targets.num_columns; ++i) columns.push_back(i);
  standardize(targets, rows, columns, statistics);
  return statistics;
}

}  // namespace trainer
