#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/input_file.h"
#include "datasets/table/csv_records.h"
#include "datasets/table/missing_values.h"
#include "datasets/table/table_columns.h"
#include "engine/config/experiment.h"

namespace trainer {

/// Where a record begins, or one of its cells.
struct TablePlace {
  std::int64_t line = 0, column = 0;  ///< line 0: none

  friend bool operator<(const TablePlace& a, const TablePlace& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  }
};

/// Reads a file record by record, past its header, each record checked to have all columns.
class TableReader {
 public:
  /// Of a training file: chooses its columns. DataError for a file that is no table, ConfigError for keys that do not
  /// suit it.
  TableReader(const DataConfig& config, const std::string& path);
  /// Of a validation file, which has the columns of the training file, or is refused.
  TableReader(const DataConfig& config, const std::string& path, const std::string& train_path,
              const TableColumns& columns);

  bool next();

  const TableColumns& columns() const { return columns_; }
  const CsvField& field(std::size_t column) const { return records_.fields()[column]; }
  /// A cell without the blanks around it.
  std::string_view text(std::size_t column) const;
  bool is_missing(std::size_t column) const { return missing_.contains(text(column)); }
  TablePlace place(std::size_t column) const { return {field(column).line, field(column).column}; }
  /// Of the column's name, or of its first cell where the file has no header.
  TablePlace head(std::size_t column) const { return heads_[column]; }
  /// Records until now.
  std::int64_t num_rows() const { return num_rows_; }

  /// Of at most `largest` in size, or DataError.
  double number(std::size_t column, double largest) const;

  /// Errors that start with "file:line:column: ".
  DataError error(std::size_t column, const std::string& message) const {
    return records_.error(field(column), message);
  }
  std::string located(const TablePlace& place, const std::string& message) const;
  /// "; write data.delimiter: ';'", where a text that is no number shows that the file is to be read in another way.
  std::string hint_for(std::string_view text) const;

 private:
  void open(const std::string& path);
  DataError one_column() const;
  bool names_are_numbers() const;

  InputFile file_;
  char delimiter_;
  bool has_header_;
  CsvRecords records_;
  MissingValues missing_;
  TableColumns columns_;
  std::vector<std::string> names_;
  std::vector<TablePlace> heads_;
  bool pending_ = false;  ///< the first record is read and not yet handed out
  std::int64_t num_rows_ = 0;
};

}  // namespace trainer
