#include "engine/report/live/live_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/report/live/run_detail.h"
#include "engine/report/live/run_list.h"
#include "engine/report/text/cell_text.h"

namespace trainer {
namespace {

FrameLine header_line(const LiveScene& scene, bool ascii, std::size_t columns) {
  constexpr std::string_view keys = "? help  q quit";
  const auto num_running = std::ranges::count_if(
      scene.runs, [](const SceneRun& run) { return run.state == LiveState::running && run.run->rank() == 0; });
  const auto num_runs = std::ranges::count_if(scene.runs, [](const SceneRun& run) { return run.run->rank() == 0; });
  FrameLine line(ascii);
  line.add("trainer top", {.is_bold = true});
  line.add_apart(fmt::format("{}, {} running", format_number_of(num_runs, "run"), format_count(num_running)));
  if (scene.num_left_out > 0)
    line.add_apart(fmt::format("{} older ones left out", format_count(static_cast<std::int64_t>(scene.num_left_out))));
  const std::string right = scene.clock + (scene.clock.empty() ? "" : "  ") + std::string(keys);
  if (line.width() + right.size() + 2 <= columns) line.add_at(columns - right.size(), right, {.ink = Ink::dim});
  line.cut(columns);
  return line;
}

std::vector<FrameLine> help_lines(bool ascii, std::size_t columns) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 20> words = {{
      {"q, Ctrl-C", "quit"},
      {"up, k, down, j", "select a run; PgUp, PgDn, Home, End, g, G go further"},
      {"Enter, Tab", "the selected run alone, or the list again"},
      {"l", "losses on a logarithmic scale, or a linear one"},
      {"m", "memory by category and over steps, or losses"},
      {"?, h", "this, or back"},
      {"Ctrl-Z", "to the shell; 'fg' comes back"},
      {"", ""},
      {"memory [ ]", "the capacity, with what is held at the peak, by category"},
      {"peak [ ]", "the peak alone, where it is too little of the capacity"},
      {"allocated", "what live blocks occupy; peak: the most inside a step"},
      {"reserved", "what the allocator took from the device for that"},
      {"used", "what the operating system or driver counts for the process"},
      {"", ""},
      {"running", "its process holds the folder of the run"},
      {"killed", "it ended without a word, and nobody holds the folder"},
      {"unfinished", "likewise, where it ran on a machine that cannot be asked"},
      {"done, oom, ...", "as it ended: oom is out of memory"},
      {"damaged", "its events cannot be read; the reason stands below"},
      {"eta", "at its pace until now, evaluations and checkpoints included"},
  }};
  std::vector<FrameLine> lines;
  for (const auto& [word, meaning] : words) {
    FrameLine line(ascii);
    line.add(word.empty() ? "" : "  ").add(word, {.is_bold = true});
    if (!meaning.empty()) line.add_at(18, meaning);
    line.cut(columns);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

Frame live_frame(const LiveScene& scene, const LiveView& view, ScreenSize size) {
  Frame frame;
  if (size.columns < least_live_screen.columns || size.rows < least_live_screen.rows) {
    FrameLine line(view.ascii);
    line.add(fmt::format("too small: {} x {}, needs {} x {}", size.columns, size.rows, least_live_screen.columns,
                         least_live_screen.rows));
    line.cut(size.columns);
    if (size.rows > 0) frame.lines.push_back(std::move(line));
    return frame;
  }
  frame.lines.push_back(header_line(scene, view.ascii, size.columns));
  const auto append = [&](std::vector<FrameLine> lines) {
    for (FrameLine& line : lines)
      if (frame.lines.size() < size.rows) frame.lines.push_back(std::move(line));
  };
  if (!scene.is_whole) {
    FrameLine line(view.ascii);
    line.add("too many files to look through them all: name a folder nearer to the runs", {.ink = Ink::yellow});
    line.cut(size.columns);
    append({std::move(line)});
  }
  if (view.help) {
    append(help_lines(view.ascii, size.columns));
    return frame;
  }
  if (scene.runs.empty()) {
    FrameLine line(view.ascii);
    line.add(fmt::format("no runs below {} yet; they appear here by themselves", scene.searched));
    line.cut(size.columns);
    append({FrameLine(view.ascii), std::move(line)});
    return frame;
  }
  LiveView shown = view;
  shown.selected = std::min(view.selected, scene.runs.size() - 1);
  if (scene.runs.size() > 1 && !view.detail) {
    const std::size_t list_rows = std::min(scene.runs.size() + 1, std::max<std::size_t>(size.rows / 3, 4));
    append(run_list(scene, shown, size.columns, list_rows));
    append({FrameLine(view.ascii)});
  }
  append(run_detail(scene, scene.runs[shown.selected], shown, size.columns, size.rows - frame.lines.size()));
  return frame;
}

}  // namespace trainer
