#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// Dots in a letter of a chart: Unicode's braille.
inline constexpr std::size_t dots_across = 2, dots_down = 4;

/// Letters of dots, from the top left.
class DotCanvas {
 public:
  DotCanvas(std::size_t columns, std::size_t rows) : columns_(columns), cells_(columns * rows) {}

  void set(std::size_t x, std::size_t y);
  /// A line of dots: a height between `lowest` and `highest` for each column of them, NaN where there is none. Steep
  /// parts are drawn as lines, not as dots that nobody connects.
  void draw(std::span<const double> heights, double lowest, double highest);
  /// A letter, as UTF-8; a space where it has no dots. `ascii`: by which half has any: ' ', '\'', '.' or ':'.
  std::string cell(std::size_t column, std::size_t row, bool ascii = false) const;
  /// Without the spaces at its end.
  std::string row(std::size_t index) const;

 private:
  std::size_t columns_;
  std::vector<unsigned> cells_;
};

/// The lowest and the highest of those that are finite; nothing where none is.
std::optional<std::array<double, 2>> range_of(std::span<const double> heights);

}  // namespace trainer
