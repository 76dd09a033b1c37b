#pragma once

#include <cstdint>
#include <string>

#include "datasets/table/table_reader.h"
#include "datasets/table/table_survey.h"

namespace trainer {

/// The samples of a file that are not left out, one by one.
class TableRows {
 public:
  /// The survey outlives the rows.
  TableRows(const DataConfig& config, const std::string& path, const std::string& train_path,
            const TableSurvey& survey);

  /// DataError for a cell without a value that no rule is for.
  bool next();

  const TableReader& reader() const { return reader_; }
  bool is_missing(std::size_t column) const { return reader_.is_missing(column); }
  std::int64_t num_dropped() const { return num_dropped_; }

  /// A feature's number or the number of its category: not a number where the cell has no value, −1 for a category
  /// that the training file does not have.
  double feature(std::size_t index) const;
  /// One of the numeric targets.
  double target(std::size_t index) const;
  std::int32_t the_class() const;

 private:
  bool is_dropped() const;

  const DataConfig& config_;
  const std::string& train_path_;
  const TableSurvey& survey_;
  TableReader reader_;
  std::int64_t num_dropped_ = 0;
};

}  // namespace trainer
