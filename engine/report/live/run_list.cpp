#include "engine/report/live/run_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/bytes.h"
#include "engine/report/text/cell_text.h"
#include "engine/report/text/progress_text.h"

namespace trainer {
namespace {

enum ListColumn : std::uint8_t {
  name_column,
  status_column,
  step_column,
  epoch_column,
  loss_column,
  eta_column,
  speed_column,
  reserved_column,
  peak_column,
  capacity_column,
  num_list_columns,
};
constexpr std::array<std::string_view, num_list_columns> list_titles = {
    "run", "status", "step", "epoch", "loss", "eta", "speed", "reserved", "peak", "capacity"};
/// What goes first where there is no room.
constexpr std::array dropped_columns = {epoch_column, capacity_column, speed_column, peak_column,
                                        eta_column,   reserved_column, loss_column,  step_column};
constexpr std::size_t least_name = 12, most_name = 40;
constexpr std::size_t list_gap = 2;

using ListCells = std::array<std::string, num_list_columns>;

std::string speed_text(const LiveRun& run) {
  if (const double tokens = run.tokens_per_second(); tokens > 0) return format_rate(tokens, 1) + " tok/s";
  const double samples = run.samples_per_second();
  return samples > 0 ? format_rate(samples, 1) + "/s" : "-";
}

ListCells cells_of(const SceneRun& scene_run, const FrameLetters& letters) {
  const LiveRun& run = *scene_run.run;
  ListCells cells;
  cells[name_column] = (run.rank() > 0 ? std::string(letters.branch) : "") + scene_run.label;
  cells[status_column] = name_of(scene_run.state);
  if (!run.has_begun()) return cells;
  cells[step_column] = steps_text(run);
  if (run.capacity() > 0) cells[capacity_column] = format_bytes(run.capacity());
  if (!run.last_step()) return cells;
  const RecordedStep& step = *run.last_step();
  cells[epoch_column] = format_count(step.epoch);
  cells[loss_column] = format_any_loss(step.loss);
  if (run.has_more())
    cells[eta_column] = fmt::format("{:.0f} % read", 100 * run.part_read());
  else if (scene_run.state == LiveState::running)
    cells[eta_column] = format_clock(run.remaining_seconds());
  cells[speed_column] = speed_text(run);
  cells[reserved_column] = format_bytes(step.memory.reserved);
  cells[peak_column] = format_bytes(run.highest_reserved());
  return cells;
}

/// The widths of the columns, 0 of those that are left out.
std::array<std::size_t, num_list_columns> widths_of(const std::vector<ListCells>& rows, std::size_t columns) {
  std::array<std::size_t, num_list_columns> widths{};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    widths[i] = list_titles[i].size();
    for (const ListCells& cells : rows) widths[i] = std::max(widths[i], cell_width(cells[i]));
  }
  widths[name_column] = std::min(widths[name_column], most_name);
  const auto total = [&] {
    std::size_t sum = 0;
    for (const std::size_t width : widths) sum += width > 0 ? width + list_gap : 0;
    return sum - list_gap;
  };
  const std::size_t wanted_name = widths[name_column];
  widths[name_column] = std::min(wanted_name, least_name);
  for (const ListColumn dropped : dropped_columns)
    if (total() > columns) widths[dropped] = 0;
  if (const std::size_t used = total(); used < columns)
    widths[name_column] = std::min(wanted_name, widths[name_column] + columns - used);
  return widths;
}

}  // namespace

TextLook look_of(LiveState state) {
  switch (state) {
    case LiveState::running:
      return {.ink = Ink::green, .is_bold = true};
    case LiveState::done:
      return {.ink = Ink::green};
    case LiveState::interrupted:
    case LiveState::unknown:
      return {.ink = Ink::yellow};
    case LiveState::killed:
    case LiveState::out_of_memory:
    case LiveState::diverged:
    case LiveState::failed:
    case LiveState::damaged:
      return {.ink = Ink::red, .is_bold = true};
    case LiveState::waiting:
    case LiveState::ended:
      break;
  }
  return {};
}

std::string steps_text(const LiveRun& run) {
  const std::string step = format_count(run.last_step() ? run.last_step()->step : 0);
  const std::int64_t total = run.record().total_steps;
  return total > 0 ? step + '/' + format_count(total) : step;
}

std::vector<FrameLine> run_list(const LiveScene& scene, const LiveView& view, std::size_t columns, std::size_t rows) {
  const FrameLetters& letters = frame_letters(view.ascii);
  const std::size_t room = rows > 0 ? rows - 1 : 0, count = scene.runs.size();
  // The selected one stays in sight.
  const std::size_t shown = std::min(room, count);
  std::size_t first = view.selected >= shown ? view.selected - shown + 1 : 0;
  first = std::min(first, count - shown);
  std::vector<ListCells> cells;
  cells.reserve(shown);
  for (std::size_t i = first; i < first + shown; ++i) {
    ListCells row = cells_of(scene.runs[i], letters);
    for (std::string& cell : row) cell = cell_text(cell, view.ascii);
    cells.push_back(std::move(row));
  }
  const auto widths = widths_of(cells, columns);
  const auto line_of = [&](const auto& texts, const std::array<TextLook, num_list_columns>& looks) {
    FrameLine line(view.ascii);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string text = cut_to_cells(texts[i], widths[i], letters.ending);
      const bool is_left = i == name_column || i == status_column;
      if (i > 0) line.add(std::string(list_gap, ' '));
      line.add(is_left ? pad_cells_right(text, widths[i]) : pad_cells_left(text, widths[i]), looks[i]);
    }
    line.cut(columns);
    return line;
  };
  std::array<TextLook, num_list_columns> title_looks;
  title_looks.fill({.is_bold = true});
  std::vector<FrameLine> lines;
  if (rows == 0) return lines;
  lines.push_back(line_of(list_titles, title_looks));
  for (std::size_t i = 0; i < shown; ++i) {
    std::array<TextLook, num_list_columns> looks;
    looks[status_column] = look_of(scene.runs[first + i].state);
    lines.push_back(line_of(cells[i], looks));
    if (first + i == view.selected) lines.back().reverse(columns);
  }
  return lines;
}

}  // namespace trainer
