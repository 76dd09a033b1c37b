#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

enum class Align : std::uint8_t { left, right };

/// Columns of text, each as wide as its widest cell, two spaces apart. The first column gives way, cut with "…",
/// where a line would be wider than the style allows.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::right;
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
