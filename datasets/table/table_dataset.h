#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/table/column_statistics.h"
#include "datasets/table/table_survey.h"

namespace trainer {

/// The samples of one file, on their way to a dataset.
struct TableSamples {
  TableValues features;
  TableValues targets;             ///< numbers; without columns where targets are classes
  std::vector<std::byte> classes;  ///< i32
};

/// A number that f32 does not hold once it is standardised.
struct FarNumber {
  std::size_t row = 0;     ///< of the samples that are not left out
  std::size_t column = 0;  ///< of the file
  double number = 0, deviations = 0;
};

/// Samples as the model takes them: numbers, standardised where the statistics say so, and for each category a 1 or a
/// 0. Throws what `refuse` makes of a number so far from the training samples that no network could take it.
std::shared_ptr<const Dataset> make_table_dataset(TableSamples samples, const TableSurvey& survey,
                                                  const std::vector<ColumnStatistics>& statistics,
                                                  const std::vector<ColumnStatistics>& target_statistics,
                                                  const std::function<DataError(const FarNumber&)>& refuse);

/// By feature, how many of the rows have a category that no training sample has. All rows where none are named.
std::vector<std::int64_t> count_unknown_categories(const TableValues& values, const TableSurvey& survey,
                                                   const std::vector<ColumnStatistics>& statistics,
                                                   const std::vector<std::uint32_t>* rows);

}  // namespace trainer
