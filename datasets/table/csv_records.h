#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/input_file.h"
#include "engine/errors.h"

namespace trainer {

/// One field of a record, unquoted. Lines and columns count from 1, columns in characters (UTF-8).
struct CsvField {
  std::string_view text;
  std::int64_t line = 0;
  std::int64_t column = 0;
  bool quoted = false;
};

/// Reads a text of separated values (RFC 4180, with any one-byte delimiter and any line ending) record by record.
/// Blank lines are skipped; a quoted field may hold delimiters, doubled quotes and line ends.
class CsvRecords {
 public:
  CsvRecords(InputFile& file, char delimiter) : file_(file), delimiter_(delimiter) {}

  /// Reads the next record; false at the end of the file.
  /// DataError for an unclosed quote, text after a closing quote, a NUL byte, a record over 16 MiB.
  bool next();
  /// Of the record read last; valid until the following next().
  std::span<const CsvField> fields() const { return fields_; }
  /// First line of the record read last.
  std::int64_t line() const { return record_line_; }

  /// An error that starts with "file:line:column: ".
  DataError error(std::int64_t line, std::int64_t column, const std::string& message) const;
  DataError error(const CsvField& field, const std::string& message) const {
    return error(field.line, field.column, message);
  }

 private:
  static constexpr int end_of_file = -1;

  int peek();
  int get();
  bool at_line_end(int character) const { return character == '\n' || character == '\r'; }
  void skip_line_end();
  void read_field();
  void append(int character);

  InputFile& file_;
  char delimiter_;
  std::vector<char> chunk_;
  std::size_t chunk_position_ = 0;
  std::int64_t line_ = 1, column_ = 1;
  std::int64_t record_line_ = 1;
  std::string text_;               ///< of all fields of the record
  std::vector<std::size_t> ends_;  ///< of each field in text_
  std::vector<CsvField> fields_;
};

}  // namespace trainer
