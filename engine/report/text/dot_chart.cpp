#include "engine/report/text/dot_chart.h"

#include <fmt/format.h>

namespace trainer {

std::string dot_chart(std::span<const double> heights, std::size_t rows, const Style& style) {
  const auto range = range_of(heights);
  if (!range) return "";
  const auto [lowest, highest] = *range;
  DotCanvas canvas((heights.size() + dots_across - 1) / dots_across, rows);
  canvas.draw(heights, lowest, highest);
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
