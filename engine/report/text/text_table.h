#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

enum class Align : std::uint8_t { left, right };

/// What becomes of a column where a line would be wider than the style allows.
enum class Narrow : std::uint8_t {
  stays,
  is_left_out,  ///< the last of these first, which a line below the table then says
  gives_way,    ///< where that is not enough: its cells are cut with "…"
};

/// Columns of text, each as wide as its widest cell, two spaces apart. Where no column is said to give way, the first
/// does.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::right;
    Narrow narrow = Narrow::stays;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  /// The next row stands below a line: the sum.
  void add_rule();

  /// Every line starts with `indent` spaces and ends with a newline. Titles are left out where all are empty.
  std::string render(const Style& style, int indent = 2) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< an empty row is a rule
};

}  // namespace trainer
