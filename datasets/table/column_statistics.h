#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "datasets/table/number_blocks.h"
#include "datasets/table/table_survey.h"

namespace trainer {

// Note [Standardised features]
// Each number becomes (x − mean) / std with the mean and the population standard deviation of the training samples
// (those left after a split and by data.samples); validation uses the same two numbers. What stands for cells without
// a value is found in the training samples too, and is one of the numbers that mean and deviation are of. A column that
// is constant in training becomes 0. All of it is done in f64, on differences to the column's first value: only the
// result is rounded to f32, so that numbers far from zero, such as timestamps, keep what tells them apart. Categories
// are not standardised; one that no training sample has is 0 everywhere, as one that the training file does not have.

/// Rows of numbers as TableRows gives them, row by row.
struct TableValues {
  std::size_t num_columns = 0;
  NumberBlocks numbers;  ///< (rows, columns)

  std::size_t num_rows() const { return num_columns == 0 ? 0 : numbers.size() / num_columns; }
  double at(std::size_t row, std::size_t column) const { return numbers[row * num_columns + column]; }
};

/// What the training samples say of a column.
struct ColumnStatistics {
  double fill = 0;                     ///< for cells without a value: a number, or that of a category; −1: none
  double origin = 0;                   ///< of numbers: the first value
  double mean = 0, std = 1;            ///< of numbers: of their differences to the origin
  std::vector<std::int64_t> num_with;  ///< by category, that for cells without a value last: training samples

  double whole_mean() const { return origin + mean; }
  bool is_known(std::int64_t category) const {
    return category >= 0 && num_with[static_cast<std::size_t>(category)] > 0;
  }
};

/// Of each feature, over the given rows, of which there is one at least; see Note [Standardised features]. DataError,
/// with the column's name, where no row has a value that others could be filled from.
std::vector<ColumnStatistics> statistics_of(const TableValues& values, const TableSurvey& survey,
                                            const std::vector<std::uint32_t>& rows, const std::string& path,
                                            bool standardizes);

/// Of numeric targets, likewise.
std::vector<ColumnStatistics> target_statistics_of(const TableValues& targets, const std::vector<std::uint32_t>& rows);

}  // namespace trainer
