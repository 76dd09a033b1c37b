#include "engine/report/live/memory_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/bytes.h"
#include "engine/report/live/live_chart.h"
#include "engine/report/memory/category_marks.h"
#include "engine/report/text/cell_text.h"

namespace trainer {
namespace {

struct CategoryShare {
  CategoryMark mark;
  std::int64_t num_bytes = 0;
};

/// Those that hold something, from the lowest to the highest of a stack.
std::vector<CategoryShare> shares_of(const LiveRun& run) {
  std::vector<CategoryShare> shares;
  if (!run.by_category()) return shares;
  for (const CategoryMark& mark : category_marks)
    if (const std::int64_t bytes = (*run.by_category())[static_cast<std::size_t>(mark.category)]; bytes > 0)
      shares.push_back({mark, bytes});
  return shares;
}

std::vector<CategoryShare> largest_first(std::vector<CategoryShare> shares) {
  std::ranges::stable_sort(shares, std::ranges::greater{}, &CategoryShare::num_bytes);
  return shares;
}

double total_of(const std::vector<CategoryShare>& shares) {
  double total = 0;
  for (const CategoryShare& share : shares) total += static_cast<double>(share.num_bytes);
  return total;
}

/// "5.1 %", "0.02 %"
std::string percent_text(double share) {
  const double percent = 100 * share;
  return percent >= 9.95   ? fmt::format("{:.0f} %", percent)
         : percent >= 0.95 ? fmt::format("{:.1f} %", percent)
                           : fmt::format("{:.2g} %", percent);
}

TextLook filled(Ink ink) { return {.ink = ink, .is_reversed = true}; }

}  // namespace

FrameLine memory_bar(const LiveRun& run, bool ascii, std::size_t columns) {
  constexpr double least_part = 0.2;  // of the capacity, for it to be the bar's end
  const FrameLetters& letters = frame_letters(ascii);
  const std::vector<CategoryShare> shares = shares_of(run);
  const double planned = total_of(shares);
  const double allocated = planned > 0 ? planned : static_cast<double>(run.highest_allocated());
  const double reserved = std::max(allocated, static_cast<double>(run.highest_reserved()));
  const auto capacity = static_cast<double>(run.capacity());
  const bool by_capacity = capacity > 0 && reserved >= least_part * capacity;
  const double end = by_capacity ? std::max(capacity, reserved) : reserved;
  std::string text;
  if (reserved <= 0) {
    text = "nothing told yet";
  } else if (capacity > 0) {
    text = fmt::format("{}, {} of {}", format_bytes(static_cast<std::int64_t>(reserved)),
                       percent_text(reserved / capacity), format_bytes(run.capacity()));
  } else {
    text = format_bytes(static_cast<std::int64_t>(reserved));
  }
  FrameLine line(ascii);
  line.add(by_capacity ? "memory " : "peak ", {.is_bold = true});
  const std::size_t taken = line.width() + text.size() + 3;
  if (const std::size_t cells = columns > taken ? std::min<std::size_t>(columns - taken, 100) : 0; cells >= 8) {
    line.add("[");
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const double place = (static_cast<double>(cell) + 0.5) / static_cast<double>(cells) * end;
      double below = 0;
      const auto share = std::ranges::find_if(
          shares, [&](const CategoryShare& other) { return place < (below += static_cast<double>(other.num_bytes)); });
      if (end > 0 && share != shares.end())
        line.add(std::string(1, share->mark.letter), filled(share->mark.ink));
      else if (place < allocated)
        line.add(letters.full, {.ink = Ink::green});
      else if (place < reserved)
        line.add(letters.empty, {.ink = Ink::cyan});
      else
        line.add(" ");
    }
    line.add("] ");
  }
  line.add(text);
  line.cut(columns);
  return line;
}

std::vector<FrameLine> memory_legend(const LiveRun& run, bool ascii, std::size_t columns, std::size_t rows) {
  const std::vector<CategoryShare> shares = largest_first(shares_of(run));
  if (rows == 0 || run.highest_reserved() <= 0) return {};
  constexpr std::size_t indent = 2;
  std::vector<FrameLine> lines;
  FrameLine line(ascii);
  line.add(std::string(indent, ' '));
  if (shares.empty()) {
    line.add(run.num_adaptations() > 0 ? "by category: not told since the run was adapted"
                                       : "by category: not told by this run",
             {.ink = Ink::dim});
    line.cut(columns);
    return {line};
  }
  line.add(run.is_measured() ? "peak:" : "planned:", {.ink = Ink::dim});
  for (const CategoryShare& share : shares) {
    const std::string text = fmt::format(" {} {}", name_of(share.mark.category), format_bytes(share.num_bytes));
    if (line.width() + 3 + text.size() > columns && line.width() > indent) {
      lines.push_back(line);
      line = FrameLine(ascii);
      line.add(std::string(indent, ' '));
    } else {
      line.add(" ");
    }
    line.add(std::string(1, share.mark.letter), filled(share.mark.ink)).add(text);
  }
  lines.push_back(line);
  if (lines.size() > rows) {
    lines.resize(rows);
    lines.back().add(std::string(" ") + std::string(frame_letters(ascii).ending));
  }
  for (FrameLine& legend : lines) legend.cut(columns);
  return lines;
}

FrameLine memory_figures(const LiveRun& run, bool ascii, std::size_t columns) {
  FrameLine line(ascii);
  if (!run.last_step()) return line;
  const RecordedMemory& memory = run.last_step()->memory;
  line.add(fmt::format("  allocated {} (peak {})  reserved {}  used {}", format_bytes(memory.allocated),
                       format_bytes(run.highest_allocated()), format_bytes(memory.reserved),
                       format_bytes(memory.device_used)));
  if (const std::string total = fmt::format(" of {}", format_bytes(memory.device_total));
      memory.device_total > 0 && line.width() + total.size() <= columns)
    line.add(total);
  if (memory.alloc_retries > 0) line.add(fmt::format("  retries {}", memory.alloc_retries), {.ink = Ink::yellow});
  line.cut(columns);
  return line;
}

std::vector<FrameLine> memory_sparkline(const LiveRun& run, bool ascii, std::size_t columns) {
  constexpr std::array<std::string_view, 8> bars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 8> ascii_bars = {"_", ".", ":", "-", "=", "+", "*", "#"};
  constexpr std::size_t least_cells = 10;
  constexpr std::string_view label = "  by step ";
  const std::string text = fmt::format(" most {} a step", format_bytes(run.highest_allocated()));
  if (!run.last_step() || columns < label.size() + text.size() + least_cells) return {};
  const std::vector<double> heights =
      run.peak_allocated().columns(std::min<std::size_t>(columns - label.size() - text.size(), 100));
  const auto range = range_of(heights);
  if (!range) return {};
  FrameLine line(ascii);
  line.add(label, {.ink = Ink::dim});
  for (const double height : filled_between(heights)) {
    const double share = (*range)[1] > 0 ? height / (*range)[1] : 0;
    const auto level = static_cast<std::size_t>(std::clamp(std::lround(share * 7), 0L, 7L));
    line.add((ascii ? ascii_bars : bars)[level], {.ink = Ink::cyan});
  }
  line.add(text, {.ink = Ink::dim});
  line.cut(columns);
  return {line};
}

std::vector<FrameLine> memory_view(const LiveRun& run, bool ascii, std::size_t columns, std::size_t rows) {
  const FrameLetters& letters = frame_letters(ascii);
  constexpr std::size_t bar_column = 38, least_chart = 4;
  const std::vector<CategoryShare> shares = largest_first(shares_of(run));
  const double total = total_of(shares);
  std::vector<FrameLine> lines;
  for (const CategoryShare& share : shares) {
    if (lines.size() == rows) return lines;
    const double part = static_cast<double>(share.num_bytes) / total;
    FrameLine line(ascii);
    line.add("  ").add(std::string(1, share.mark.letter), filled(share.mark.ink));
    line.add(fmt::format(" {:<16}{:>11}{:>8}", name_of(share.mark.category), format_bytes(share.num_bytes),
                         percent_text(part)));
    if (columns > bar_column + 4) {
      line.add_at(bar_column, "");
      const auto cells = static_cast<double>(std::min<std::size_t>(columns - bar_column - 1, 60));
      for (long cell = 0; cell < std::max(1L, std::lround(part * cells)); ++cell)
        line.add(letters.full, {.ink = share.mark.ink});
    }
    line.cut(columns);
    lines.push_back(std::move(line));
  }
  if (rows < lines.size() + least_chart + 1) return lines;
  const std::vector<double> heights = run.peak_allocated().columns(chart_columns_of(columns) * dots_across);
  const auto range = range_of(heights);
  if (!range) return lines;
  std::vector<double> mebibytes = filled_between(heights);
  for (double& height : mebibytes) height /= 1024 * 1024;
  std::vector<FrameLine> chart = dot_lines(
      mebibytes, 0, (*range)[1] / (1024 * 1024), rows - lines.size(), ascii,
      fmt::format("most that was allocated in steps {} to {}, in MiB", format_count(run.peak_allocated().first_step()),
                  format_count(run.peak_allocated().last_step())),
      columns);
  lines.insert(lines.end(), chart.begin(), chart.end());
  return lines;
}

}  // namespace trainer
