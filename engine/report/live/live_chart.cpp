#include "engine/report/live/live_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer {
namespace {

constexpr std::size_t label_width = 10;
constexpr std::size_t chart_margin = label_width + 2;
constexpr std::size_t most_chart_columns = 160;
constexpr std::size_t columns_of_mark = 5;
constexpr std::size_t most_live_points = 1024;

/// As it is drawn; NaN where the scale has no place for it.
double on_scale(double value, bool log_scale) {
  if (!log_scale) return value;
  return value > 0 ? std::log10(value) : std::numeric_limits<double>::quiet_NaN();
}

/// Means of the points that fall into each column of dots.
std::vector<double> heights_of(const std::vector<CurvePoint>& points, std::int64_t first, double length,
                               std::size_t dots, bool log_scale) {
  std::vector<double> sums(dots, 0), heights(dots, std::numeric_limits<double>::quiet_NaN());
  std::vector<int> counts(dots, 0);
  for (const CurvePoint& point : points) {
    const double value = on_scale(point.value, log_scale);
    if (!std::isfinite(value)) continue;
    const double share = static_cast<double>(point.step - first) / length;
    const auto dot = static_cast<std::size_t>(std::lround(share * static_cast<double>(dots - 1)));
    sums[dot] += value;
    ++counts[dot];
  }
  for (std::size_t i = 0; i < dots; ++i)
    if (counts[i] > 0) heights[i] = sums[i] / counts[i];
  return filled_between(std::move(heights));
}

}  // namespace

std::size_t chart_columns_of(std::size_t columns) {
  return columns > chart_margin + 1 ? std::min(columns - chart_margin, most_chart_columns) : 1;
}

std::vector<double> filled_between(std::vector<double> heights) {
  std::size_t last = heights.size();
  for (std::size_t i = 0; i < heights.size(); ++i) {
    if (std::isnan(heights[i])) continue;
    for (std::size_t between = last + 1; last < i && between < i; ++between) {
      const double share = static_cast<double>(between - last) / static_cast<double>(i - last);
      heights[between] = heights[last] + share * (heights[i] - heights[last]);
    }
    last = i;
  }
  return heights;
}

std::vector<FrameLine> dot_lines(std::span<const double> heights, double lowest, double highest, std::size_t rows,
                                 bool ascii, const std::string& title, std::size_t columns,
                                 std::span<const ChartMark> marks, bool log_scale) {
  const FrameLetters& letters = frame_letters(ascii);
  const std::size_t chart_rows = rows - 1, across = (heights.size() + dots_across - 1) / dots_across;
  DotCanvas canvas(across, chart_rows);
  canvas.draw(heights, lowest, highest);
  std::vector<std::vector<bool>> is_marked(chart_rows, std::vector<bool>(across, false));
  const double range = highest > lowest ? highest / 2 - lowest / 2 : 1;
  for (const ChartMark& mark : marks) {
    const double depth = std::clamp((highest / 2 - mark.height / 2) / range, 0.0, 1.0);
    const auto dot = static_cast<std::size_t>(std::lround(depth * static_cast<double>(chart_rows * dots_down - 1)));
    const auto column = static_cast<std::size_t>(std::lround(mark.share * static_cast<double>(heights.size() - 1)));
    is_marked[dot / dots_down][column / dots_across] = true;
  }
  const auto label = [&](double value) { return fmt::format("{:.4g}", log_scale ? std::pow(10, value) : value); };
  std::vector<FrameLine> lines;
  for (std::size_t row = 0; row < chart_rows; ++row) {
    const std::string number = row == 0 ? label(highest) : row + 1 == chart_rows ? label(lowest) : "";
    FrameLine line(ascii);
    line.add(fmt::format("{:>{}} ", number, label_width)).add(letters.axis);
    for (std::size_t column = 0; column < across; ++column) {
      if (is_marked[row][column])
        line.add(letters.mark, {.ink = Ink::yellow, .is_bold = true});
      else
        line.add(canvas.cell(column, row, ascii), {.ink = Ink::cyan});
    }
    line.cut(columns);
    lines.push_back(std::move(line));
  }
  FrameLine footer(ascii);
  footer.add(std::string(label_width + 1, ' ')).add(letters.corner).add(" " + title, {.ink = Ink::dim});
  footer.cut(columns);
  lines.push_back(std::move(footer));
  return lines;
}

std::vector<FrameLine> loss_chart(const LiveRun& run, bool log_scale, bool ascii, std::size_t columns,
                                  std::size_t rows) {
  constexpr std::size_t least_rows = 4, least_points = 2;
  const std::vector<CurvePoint> losses = run.losses().points(most_live_points);
  // Means of so many that their marks leave the curve to be seen.
  const std::vector<CurvePoint> evaluations =
      run.evaluation_losses().points(std::max<std::size_t>(chart_columns_of(columns) / columns_of_mark, 1));
  if (rows < least_rows || losses.size() < least_points) return {};
  const std::int64_t first = losses.front().step, last = losses.back().step;
  const auto length = static_cast<double>(std::max<std::int64_t>(last - first, 1));
  const std::size_t dots = chart_columns_of(columns) * dots_across;
  const std::vector<double> heights = heights_of(losses, first, length, dots, log_scale);
  std::vector<double> all = heights;
  std::vector<ChartMark> marks;
  for (const CurvePoint& evaluation : evaluations) {
    const double height = on_scale(evaluation.value, log_scale);
    if (evaluation.step < first || evaluation.step > last || !std::isfinite(height)) continue;
    marks.push_back({static_cast<double>(evaluation.step - first) / length, height});
    all.push_back(height);
  }
  const auto range = range_of(all);
  if (!range) return {};
  std::string title = fmt::format("loss to step {}", format_count(last));
  if (!marks.empty()) title += fmt::format(", {} evaluation", frame_letters(ascii).mark);
  if (log_scale) title += ", logarithmic";
  return dot_lines(heights, (*range)[0], (*range)[1], rows, ascii, title, columns, marks, log_scale);
}

}  // namespace trainer
