#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "datasets/input_file.h"
#include "datasets/table/csv_records.h"
#include "datasets/table/table_columns.h"
#include "engine/config/experiment.h"

namespace trainer {

/// Reads a file record by record, past its header, each record checked to have all columns.
class TableReader {
 public:
  /// DataError for a file that has no features, ConfigError for keys that do not suit it.
  TableReader(const DataConfig& config, const std::string& path);

  bool next();

  const TableColumns& columns() const { return columns_; }
  const CsvField& field(std::size_t column) const { return records_.fields()[column]; }
  const CsvField& target() const { return field(columns_.target); }
  std::int64_t num_rows() const { return num_rows_; }

  /// Of at most `largest` in size.
  double number(std::size_t column, double largest) const;
  std::string_view label() const;
  DataError no_probability(double value) const;
  DataError unknown_label(std::string_view label, const std::string& train) const;

 private:
  DataError one_column() const;
  bool names_are_numbers() const;
  std::string hint_for(std::string_view text) const;
  DataError missing_value(std::size_t column) const;

  InputFile file_;
  char delimiter_;
  bool has_header_;
  CsvRecords records_;
  TableColumns columns_;
  bool pending_ = false;  ///< the first record is read and not yet handed out
  std::int64_t num_rows_ = 0;
};

}  // namespace trainer
