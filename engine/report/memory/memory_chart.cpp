#include "engine/report/memory/memory_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/bytes.h"
#include "engine/report/memory/category_marks.h"

namespace trainer {
namespace {

constexpr std::size_t num_rows = 16;
constexpr std::size_t label_columns = 13;  ///< "  1023.99 MiB"
constexpr std::size_t failed_columns = 3;

std::int64_t bytes_of(const CategoryBytes& by_category, Category category) {
  return by_category[static_cast<std::size_t>(category)];
}

/// A row of cells, painted in runs of the same ink.
class CellLine {
 public:
  explicit CellLine(const Style& style) : style_(style) {}
  void add(std::string_view cell, std::optional<Ink> ink) {
    if (ink != ink_) flush();
    ink_ = ink;
    run_ += cell;
  }
  std::string take() {
    flush();
    return std::move(text_);
  }

 private:
  void flush() {
    text_ += ink_ ? paint(style_, *ink_, run_) : run_;
    run_.clear();
  }

  const Style& style_;
  std::string text_, run_;
  std::optional<Ink> ink_;
};

class Chart {
 public:
  Chart(std::span<const TimelinePoint> timeline, const MemoryChartOptions& options, const Style& style)
      : options_(options), style_(style), held_at_end_(timeline.back().allocated) {
    const auto width = static_cast<std::size_t>(std::clamp(style.width, 60, 100));
    const std::size_t used = label_columns + 3 + (options.failed_bytes > 0 ? failed_columns : 0);
    columns_ = chart_columns(timeline, width - used);
    width_ = width;
    peak_ = static_cast<std::size_t>(
        std::find_if(columns_.begin(), columns_.end(), [](const ChartColumn& column) { return column.is_peak; }) -
        columns_.begin());
    scale_ = std::max({columns_[peak_].allocated, held_at_end_ + options.failed_bytes, std::int64_t{1}});
    for (const TimelinePoint& point : timeline)
      for (std::size_t i = 0; i < point.by_category.size(); ++i) is_used_[i] = is_used_[i] || point.by_category[i] > 0;
  }

  std::string text() const {
    std::string text = peak_line();
    for (std::size_t row = num_rows; row-- > 0;) text += row_line(row);
    text += std::string(label_columns, ' ') + " └";
    for (std::size_t i = 0; i < num_chart_columns(); ++i) text += "─";
    return text + '\n' + phase_line() + legend();
  }

 private:
  std::size_t num_chart_columns() const { return columns_.size() + (options_.failed_bytes > 0 ? failed_columns : 0); }

  /// Rows that `num_bytes` reach; what is there at all reaches one.
  std::size_t height_of(std::int64_t num_bytes) const {
    const double height = static_cast<double>(num_bytes) / static_cast<double>(scale_) * num_rows;
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(height)), num_bytes > 0 ? 1 : 0, num_rows);
  }

  std::string peak_line() const {
    const ChartColumn& peak = columns_[peak_];
    std::string what = fmt::format("peak {}, {}", format_bytes(peak.allocated), name_of(peak.phase));
    const auto layer = static_cast<std::size_t>(peak.layer);
    if (peak.layer >= 0 && layer < options_.layer_labels.size()) what += ", " + options_.layer_labels[layer];
    const std::size_t at = label_columns + 2 + peak_;
    std::string line(at, ' ');
    const std::string mark = paint(style_, Ink::bold, "▾");
    what = cut_to_width(what, width_ - 4);
    if (at + 2 + display_width(what) <= width_) return line + mark + ' ' + what + '\n';
    const std::size_t before = display_width(what) + 1;
    if (before <= at) return pad_left(what, at - 1) + ' ' + mark + '\n';
    return std::string(2, ' ') + what + '\n' + line + mark + '\n';
  }

  /// The middle of a row, in bytes.
  std::int64_t middle_of(std::size_t row) const {
    return static_cast<std::int64_t>((static_cast<double>(row) + 0.5) / num_rows * static_cast<double>(scale_));
  }

  bool holds_capacity(std::size_t row) const {
    return options_.capacity > 0 && options_.capacity < scale_ &&
           row == static_cast<std::size_t>(static_cast<double>(options_.capacity) / static_cast<double>(scale_) *
                                           num_rows);
  }

  static const CategoryMark& mark_at(const ChartColumn& column, std::int64_t num_bytes) {
    std::int64_t sum = 0;
    const CategoryMark* highest = category_marks.data();
    for (const CategoryMark& mark : category_marks) {
      const std::int64_t part = bytes_of(column.by_category, mark.category);
      if (part == 0) continue;
      highest = &mark;
      sum += part;
      if (num_bytes < sum) break;
    }
    return *highest;
  }

  std::string row_line(std::size_t row) const {
    constexpr std::size_t labelled_rows = 4;
    const bool is_capacity = holds_capacity(row);
    const std::size_t from_top = num_rows - 1 - row;
    std::string label;
    if (is_capacity)
      label = format_bytes(options_.capacity);
    else if (from_top % labelled_rows == 0 && !holds_capacity(row + 1) && !(row > 0 && holds_capacity(row - 1)))
      label = format_bytes(
          static_cast<std::int64_t>(static_cast<double>(scale_) * static_cast<double>(row + 1) / num_rows));
    std::string line = pad_left(label, label_columns) + (label.empty() ? " │" : " ┤");
    const std::string_view empty = is_capacity ? "╌" : " ";
    CellLine cells(style_);
    for (const ChartColumn& column : columns_) {
      if (row >= height_of(column.allocated)) {
        cells.add(empty, std::nullopt);
        continue;
      }
      const CategoryMark& mark = mark_at(column, middle_of(row));
      cells.add(std::string_view(&mark.letter, 1), mark.ink);
    }
    if (options_.failed_bytes > 0) {
      const std::size_t held = height_of(held_at_end_);
      const std::size_t asked = height_of(held_at_end_ + options_.failed_bytes);
      for (std::size_t i = 0; i < failed_columns; ++i) {
        if (row >= held && row < std::max(asked, held + 1))
          cells.add("░", Ink::red);
        else if (row < held)
          cells.add("·", std::nullopt);
        else
          cells.add(empty, std::nullopt);
      }
    }
    line += cells.take();
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
  }

  /// A name for each run of a phase, or its letter where there is no room; what is computed again is part of the
  /// backward pass, and marked in it.
  std::string phase_line() const {
    const auto pass_of = [](Phase phase) { return phase == Phase::recompute ? Phase::backward : phase; };
    std::string line(label_columns + 2, ' ');
    std::array<bool, phase_names.size()> has_letter{};
    for (std::size_t begin = 0; begin < columns_.size();) {
      const Phase pass = pass_of(columns_[begin].phase);
      std::size_t end = begin;
      while (end < columns_.size() && pass_of(columns_[end].phase) == pass) ++end;
      const std::string_view name = name_of(pass);
      const bool has_room = end - begin > name.size();
      if (has_room) line += std::string(name) + ' ';
      for (std::size_t i = begin + (has_room ? name.size() + 1 : 0); i < end; ++i) {
        const bool is_marked = !has_room || columns_[i].phase != pass;
        line += is_marked ? std::string(1, name_of(columns_[i].phase).front()) : "─";
        if (is_marked) has_letter[static_cast<std::size_t>(columns_[i].phase)] = true;
      }
      begin = end;
    }
    std::string letters;
    for (std::size_t i = 0; i < has_letter.size(); ++i)
      if (has_letter[i])
        letters += fmt::format("{}{} {}", letters.empty() ? "" : ", ", phase_names[i].front(), phase_names[i]);
    if (letters.empty()) return line + '\n';
    return line + '\n' + std::string(label_columns + 2, ' ') + paint(style_, Ink::dim, letters) + '\n';
  }

  std::string legend() const {
    constexpr std::string_view indent = "  ";
    std::string text;
    std::size_t used = 0;
    const auto add = [&](const std::string& entry) {
      const std::size_t columns = display_width(entry);
      if (text.empty() || used + 3 + columns > width_) {
        text += text.empty() ? "" : "\n";
        text += indent;
        used = indent.size() + columns;
      } else {
        text += "   ";
        used += 3 + columns;
      }
      text += entry;
    };
    for (const CategoryMark& mark : category_marks) {
      if (!is_used_[static_cast<std::size_t>(mark.category)]) continue;
      const std::string sign = paint(style_, mark.ink, std::string_view(&mark.letter, 1));
      add(fmt::format("{} {} {}", sign, name_of(mark.category),
                      format_bytes(bytes_of(columns_[peak_].by_category, mark.category))));
    }
    if (options_.failed_bytes > 0)
      add(fmt::format("{} {} not served", paint(style_, Ink::red, "░"), format_bytes(options_.failed_bytes)));
    if (options_.capacity > 0 && options_.capacity < scale_) add("╌ the capacity");
    return text + '\n';
  }

  const MemoryChartOptions& options_;
  const Style& style_;
  const std::int64_t held_at_end_;
  std::vector<ChartColumn> columns_;
  std::size_t width_ = 0, peak_ = 0;
  std::int64_t scale_ = 1;
  std::array<bool, num_categories> is_used_{};
};

}  // namespace

std::vector<ChartColumn> chart_columns(std::span<const TimelinePoint> timeline, std::size_t most_columns) {
  std::vector<ChartColumn> columns;
  if (timeline.empty() || most_columns == 0) return columns;
  const auto is_lower = [](const auto& a, const auto& b) { return a.allocated < b.allocated; };
  const std::size_t num_stretches = std::min(timeline.size(), most_columns);
  const std::size_t columns_each = most_columns / num_stretches;
  for (std::size_t i = 0; i < num_stretches; ++i) {
    const auto first = timeline.begin() + static_cast<std::ptrdiff_t>(timeline.size() * i / num_stretches);
    const auto last = timeline.begin() + static_cast<std::ptrdiff_t>(timeline.size() * (i + 1) / num_stretches);
    const TimelinePoint& highest = *std::max_element(first, last, is_lower);
    columns.insert(columns.end(), columns_each,
                   {highest.phase, highest.layer, highest.allocated, highest.by_category, false});
  }
  std::max_element(columns.begin(), columns.end(), is_lower)->is_peak = true;
  return columns;
}

std::string memory_chart(std::span<const TimelinePoint> timeline, const MemoryChartOptions& options,
                         const Style& style) {
  return timeline.empty() ? "" : Chart(timeline, options, style).text();
}

std::string memory_chart(std::span<const TimelinePoint> timeline, std::span<const std::string> layer_labels,
                         const Style& style, std::int64_t failed_bytes) {
  return memory_chart(timeline, {.layer_labels = layer_labels, .failed_bytes = failed_bytes}, style);
}

}  // namespace trainer
