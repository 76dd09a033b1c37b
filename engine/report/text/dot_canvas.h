#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

/// Columns and rows of dots in a letter of a drawing: Unicode's braille.
inline constexpr std::size_t dots_across = 2, dots_down = 4;

/// A drawing of dots, from the top left, with letters between them. What is drawn outside of it is not seen.
class DotCanvas {
 public:
  DotCanvas(std::size_t columns, std::size_t rows) : columns_(columns), cells_(columns * rows) {}

  /// A cell has the ink of what was drawn into it last.
  void set(std::size_t x, std::size_t y, std::optional<Ink> ink = std::nullopt);
  /// A line of dots: a height between `lowest` and `highest` for each column of them, NaN where there is none. Steep
  /// parts are drawn as lines, not as dots that nobody connects.
  void draw(std::span<const double> heights, double lowest, double highest);
  /// In place of the dots of a cell; `letter` takes one column.
  void write(std::size_t column, std::size_t row, std::string_view letter, std::optional<Ink> ink = std::nullopt);
  /// Whether nothing was drawn there.
  bool is_empty(std::size_t column, std::size_t row) const;

  /// A letter, as UTF-8; a space where nothing was drawn. `ascii`: dots by which half has any: '\'', '.' or ':'.
  std::string cell(std::size_t column, std::size_t row, bool ascii = false) const;
  /// A line of text without spaces at its end.
  std::string row(std::size_t index, const Style& style = {}) const;

 private:
  struct Cell {
    unsigned dots = 0;
    std::string letter{};
    std::optional<Ink> ink{};
  };

  bool is_inside(std::size_t column, std::size_t row) const;

  std::size_t columns_;
  std::vector<Cell> cells_;
};

/// The lowest and the highest of those that are finite; nothing where none is.
std::optional<std::array<double, 2>> range_of(std::span<const double> heights);

}  // namespace trainer
