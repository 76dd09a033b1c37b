#include "engine/report/text/dot_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace trainer {
namespace {

constexpr std::size_t dots_down = 4;

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

/// Cells of dots, from the top left.
class DotCanvas {
 public:
  DotCanvas(std::size_t columns, std::size_t rows) : columns_(columns), cells_(columns * rows) {}

  void set(std::size_t x, std::size_t y) {
    constexpr std::array<std::array<unsigned, dots_down>, dots_across> bits = {
        {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    cells_[y / dots_down * columns_ + x / dots_across] |= bits[x % dots_across][y % dots_down];
  }
  std::string row(std::size_t index) const {
    std::string text;
    for (std::size_t column = 0; column < columns_; ++column) {
      const unsigned dots = cells_[index * columns_ + column];
      text += dots == 0 ? " " : braille(dots);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  std::size_t columns_;
  std::vector<unsigned> cells_;
};

}  // namespace

std::string dot_chart(std::span<const double> heights, std::size_t rows, const Style& style) {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (const double height : heights) {
    if (!std::isfinite(height)) continue;
    lowest = std::min(lowest, height);
    highest = std::max(highest, height);
  }
  if (lowest > highest) return "";
  const double range = highest > lowest ? highest - lowest : 1;
  const std::size_t lowest_dot = rows * dots_down - 1;
  DotCanvas canvas((heights.size() + dots_across - 1) / dots_across, rows);
  std::size_t before = 0;
  bool is_first = true;
  for (std::size_t x = 0; x < heights.size(); ++x) {
    if (!std::isfinite(heights[x])) continue;
    const double depth = (highest - heights[x]) / range;
    const auto y = static_cast<std::size_t>(std::lround(depth * static_cast<double>(lowest_dot)));
    // Steep parts are drawn as lines, not as dots that nobody connects.
    const std::size_t from = is_first ? y : std::min(before, y), to = is_first ? y : std::max(before, y);
    for (std::size_t dot = from; dot <= to; ++dot) canvas.set(x, dot);
    before = y;
    is_first = false;
  }
  std::string text;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string label = row == 0          ? fmt::format("{:.4g}", highest)
                              : row + 1 == rows ? fmt::format("{:.4g}", lowest)
                                                : "";
    text += fmt::format("{:>{}} │{}\n", label, dot_chart_margin - 2, paint(style, Ink::cyan, canvas.row(row)));
  }
  return text;
}

}  // namespace trainer
