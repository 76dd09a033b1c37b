#include "engine/report/memory_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/bytes.h"

namespace trainer {
namespace {

struct Stretch {
  std::size_t begin = 0, end = 0;  ///< points
};

std::vector<Stretch> phases_of(std::span<const TimelinePoint> timeline) {
  std::vector<Stretch> phases;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    if (phases.empty() || timeline[i].phase != timeline[phases.back().begin].phase) phases.push_back({i, i});
    phases.back().end = i + 1;
  }
  return phases;
}

std::string bar_of(std::int64_t part, std::int64_t whole, std::size_t columns) {
  const double share = whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  auto length = static_cast<std::size_t>(std::lround(share * static_cast<double>(columns)));
  if (part > 0 && length == 0) length = 1;
  std::string bar;
  for (std::size_t i = 0; i < std::min(length, columns); ++i) bar += "█";
  return bar;
}

}  // namespace

std::vector<ChartRow> compress_timeline(std::span<const TimelinePoint> timeline, std::size_t most_rows) {
  const std::vector<Stretch> phases = phases_of(timeline);
  std::vector<ChartRow> rows;
  const std::size_t spare = most_rows > phases.size() ? most_rows - phases.size() : 0;
  for (const Stretch& phase : phases) {
    const std::size_t num_points = phase.end - phase.begin;
    // Every phase has one row; the others go by length, rounded down, so that there are never too many.
    const std::size_t num_rows = std::min(num_points, 1 + spare * num_points / timeline.size());
    for (std::size_t row = 0; row < num_rows; ++row) {
      const auto first = timeline.begin() + static_cast<std::ptrdiff_t>(phase.begin + num_points * row / num_rows);
      const auto last = timeline.begin() + static_cast<std::ptrdiff_t>(phase.begin + num_points * (row + 1) / num_rows);
      const auto highest = std::max_element(
          first, last, [](const TimelinePoint& a, const TimelinePoint& b) { return a.allocated < b.allocated; });
      rows.push_back({highest->phase, highest->layer, highest->allocated, false});
    }
  }
  const auto peak = std::max_element(rows.begin(), rows.end(),
                                     [](const ChartRow& a, const ChartRow& b) { return a.allocated < b.allocated; });
  if (peak != rows.end()) peak->is_peak = true;
  return rows;
}

std::string memory_chart(std::span<const TimelinePoint> timeline, std::span<const std::string> layer_labels,
                         const Style& style, std::int64_t failed_bytes) {
  const std::vector<ChartRow> rows = compress_timeline(timeline);
  if (rows.empty()) return "";

  constexpr std::size_t phase_columns = 9;
  constexpr std::size_t bytes_columns = 11;
  constexpr std::size_t mark_columns = 16;
  std::int64_t highest = 0;
  std::size_t label_columns = 0;
  const auto label_of = [&](const ChartRow& row) -> std::string {
    const auto index = static_cast<std::size_t>(row.layer);
    return row.layer >= 0 && index < layer_labels.size() ? layer_labels[index] : "";
  };
  for (const ChartRow& row : rows) {
    highest = std::max(highest, row.allocated);
    label_columns = std::max(label_columns, display_width(label_of(row)));
  }
  label_columns = std::min<std::size_t>(label_columns, 24);
  const std::int64_t scale = std::max(highest, failed_bytes > 0 ? timeline.back().allocated + failed_bytes : 0);
  const std::size_t used_columns = 2 + phase_columns + 1 + label_columns + 1 + bytes_columns + 2 + mark_columns;
  const auto width = static_cast<std::size_t>(std::clamp(style.width, 60, 100));
  const std::size_t bar_columns = width > used_columns + 8 ? width - used_columns : 8;

  std::string text;
  const auto add_line = [&](std::string_view phase, const std::string& label, const std::string& bytes,
                            const std::string& bar, std::string_view mark) {
    text += fmt::format("  {} {} {}  {}{}\n", pad_right(phase, phase_columns),
                        pad_right(cut_to_width(label, label_columns), label_columns), pad_left(bytes, bytes_columns),
                        bar, mark);
  };
  Phase previous = Phase::eval;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ChartRow& row = rows[i];
    const bool starts_phase = i == 0 || row.phase != previous;
    previous = row.phase;
    const std::string bar = bar_of(row.allocated, scale, bar_columns);
    add_line(starts_phase ? name_of(row.phase) : "", label_of(row), format_bytes(row.allocated),
             row.is_peak ? paint(style, Ink::yellow, bar) : bar, row.is_peak ? "  ◂ peak" : "");
  }
  if (failed_bytes > 0) {
    const std::int64_t held = timeline.back().allocated;
    const std::string before = bar_of(held, scale, bar_columns);
    std::string more;
    for (std::size_t i = display_width(before); i < display_width(bar_of(held + failed_bytes, scale, bar_columns)); ++i)
      more += "░";
    add_line("", "", "+ " + format_bytes(failed_bytes), before + paint(style, Ink::red, more), "  ◂ not served");
  }
  return text;
}

}  // namespace trainer
