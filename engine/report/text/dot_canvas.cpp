#include "engine/report/text/dot_canvas.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trainer {
namespace {

constexpr unsigned upper_dots = 0x01 | 0x02 | 0x08 | 0x10;

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

void DotCanvas::set(std::size_t x, std::size_t y, std::optional<Ink> ink) {
  constexpr std::array<std::array<unsigned, dots_down>, dots_across> bits = {
      {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
  if (!is_inside(x / dots_across, y / dots_down)) return;
  Cell& cell = cells_[y / dots_down * columns_ + x / dots_across];
  cell.dots |= bits[x % dots_across][y % dots_down];
  cell.ink = ink;
}

void DotCanvas::draw(std::span<const double> heights, double lowest, double highest) {
  // By halves, whose difference is finite wherever the numbers are.
  const double range = highest > lowest ? highest / 2 - lowest / 2 : 1;
  const std::size_t lowest_dot = cells_.size() / columns_ * dots_down - 1;
  std::size_t before = 0;
  bool is_first = true;
  for (std::size_t x = 0; x < heights.size(); ++x) {
    if (!std::isfinite(heights[x])) continue;
    const double depth = std::clamp((highest / 2 - heights[x] / 2) / range, 0.0, 1.0);
    const auto y = static_cast<std::size_t>(std::lround(depth * static_cast<double>(lowest_dot)));
    const std::size_t from = is_first ? y : std::min(before, y), to = is_first ? y : std::max(before, y);
    for (std::size_t dot = from; dot <= to; ++dot) set(x, dot);
    before = y;
    is_first = false;
  }
}

void DotCanvas::write(std::size_t column, std::size_t row, std::string_view letter, std::optional<Ink> ink) {
  if (!is_inside(column, row)) return;
  Cell& cell = cells_[row * columns_ + column];
  cell.letter = letter;
  cell.ink = ink;
}

bool DotCanvas::is_inside(std::size_t column, std::size_t row) const {
  return column < columns_ && row < cells_.size() / columns_;
}

bool DotCanvas::is_empty(std::size_t column, std::size_t row) const {
  const Cell& cell = cells_[row * columns_ + column];
  return cell.dots == 0 && cell.letter.empty();
}

std::string DotCanvas::cell(std::size_t column, std::size_t row, bool ascii) const {
  const Cell& cell = cells_[row * columns_ + column];
  if (!cell.letter.empty()) return cell.letter;
  if (cell.dots == 0) return " ";
  if (!ascii) return braille(cell.dots);
  const bool has_upper = (cell.dots & upper_dots) != 0, has_lower = (cell.dots & ~upper_dots) != 0;
  return has_upper && has_lower ? ":" : has_upper ? "'" : ".";
}

std::string DotCanvas::row(std::size_t index, const Style& style) const {
  std::string text, piece;
  std::optional<Ink> ink;
  std::size_t blanks = 0;
  const auto end_piece = [&] {
    text += ink ? paint(style, *ink, piece) : piece;
    piece.clear();
  };
  for (std::size_t column = 0; column < columns_; ++column) {
    const Cell& cell = cells_[index * columns_ + column];
    if (is_empty(column, index)) {
      ++blanks;
      continue;
    }
    if (blanks > 0 || cell.ink != ink) {
      end_piece();
      text.append(blanks, ' ');
      blanks = 0;
      ink = cell.ink;
    }
    piece += this->cell(column, index);
  }
  end_piece();
  return text;
}

std::optional<std::array<double, 2>> range_of(std::span<const double> heights) {
  std::optional<std::array<double, 2>> range;
  for (const double height : heights) {
    if (!std::isfinite(height)) continue;
    if (!range) range = {height, height};
    range = {std::min((*range)[0], height), std::max((*range)[1], height)};
  }
  return range;
}

}  // namespace trainer
