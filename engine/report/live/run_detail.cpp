#include "engine/report/live/run_detail.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/report/live/live_chart.h"
#include "engine/report/live/memory_lines.h"
#include "engine/report/live/run_list.h"
#include "engine/report/live/run_notes.h"
#include "engine/report/text/progress_text.h"

namespace trainer {
namespace {

/// Lines that stand together; the least important go first where there is no room.
struct DetailBlock {
  int importance = 0;
  std::vector<FrameLine> lines;
};

FrameLine title_line(const SceneRun& scene_run, bool ascii, std::size_t columns) {
  const LiveRun& run = *scene_run.run;
  FrameLine line(ascii);
  const bool is_named = run.has_begun() && !run.record().name.empty();
  line.add(is_named ? run.record().name : scene_run.label, {.is_bold = true});
  // A name of any length leaves room for what is told of the run.
  line.cut(columns / 2);
  if (run.rank() > 0) line.add_apart(fmt::format("rank {}", run.rank()));
  line.add_apart(name_of(scene_run.state), look_of(scene_run.state));
  if (run.has_begun()) {
    if (const std::string stage = run.stage(); !stage.empty()) line.add_apart("stage " + stage);
    line.add_apart(fmt::format("{} ({})", run.record().device_kind, run.record().device_name));
  }
  line.add_apart(run.folder(), {.ink = Ink::dim});
  line.cut(columns);
  return line;
}

/// Of the run itself: since it began or went on until now, its last event, or as its end tells.
double elapsed_seconds(const LiveScene& scene, const SceneRun& scene_run) {
  const LiveRun& run = *scene_run.run;
  if (const std::optional<Json>& end = run.record().end;
      end && end->contains("seconds") && (*end)["seconds"].is_number())
    return (*end)["seconds"].get<double>();
  const double until = scene_run.state == LiveState::running ? scene.now_seconds : run.written_seconds();
  return std::max(0.0, until - run.begin_seconds());
}

FrameLine progress_line(const LiveScene& scene, const SceneRun& scene_run, bool ascii, std::size_t columns) {
  constexpr std::size_t least_bar = 8, most_bar = 60;
  const LiveRun& run = *scene_run.run;
  const FrameLetters& letters = frame_letters(ascii);
  const std::int64_t step = run.last_step() ? run.last_step()->step : 0, total = run.record().total_steps;
  const double share = total > 0 ? std::min(1.0, static_cast<double>(step) / static_cast<double>(total)) : 0;
  FrameLine line(ascii);
  line.add("step " + steps_text(run), {.is_bold = true});
  std::string after = fmt::format(" {:.1f} %", 100 * share);
  if (run.has_more()) after += fmt::format("  reading: {:.0f} %", 100 * run.part_read());
  if (scene_run.state == LiveState::running && run.remaining_seconds() >= 0)
    after += "  eta " + format_clock(run.remaining_seconds());
  after += "  elapsed " + format_clock(elapsed_seconds(scene, scene_run));
  const std::size_t taken = line.width() + after.size() + 3;
  if (columns >= taken + least_bar) {
    const std::size_t cells = std::min(columns - taken, most_bar);
    const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(cells)));
    line.add(" [");
    for (std::size_t cell = 0; cell < cells; ++cell)
      line.add(cell < full ? letters.full : letters.empty, {.ink = cell < full ? Ink::green : Ink::dim});
    line.add("]");
  }
  line.add(after);
  line.cut(columns);
  return line;
}

FrameLine numbers_line(const LiveRun& run, bool ascii, std::size_t columns) {
  FrameLine line(ascii);
  if (!run.last_step()) {
    line.add("no step yet", {.ink = Ink::dim});
    return line;
  }
  const RecordedStep& step = *run.last_step();
  line.add("loss ").add(format_any_loss(step.loss),
                        std::isnan(step.loss) ? TextLook{.ink = Ink::red} : TextLook{.is_bold = true});
  line.add_apart(fmt::format("lr {:.3g}", step.learning_rate));
  if (const double tokens = run.tokens_per_second(); tokens > 0)
    line.add_apart(format_rate(tokens, 1) + " tokens/s");
  else if (const double samples = run.samples_per_second(); samples > 0)
    line.add_apart(format_rate(samples, 1) + " samples/s");
  line.add_apart(fmt::format("epoch {}", format_count(step.epoch)));
  if (const double mfu = run.mfu(); mfu > 0) line.add_apart(fmt::format("mfu {:.1f} %", 100 * mfu));
  const double waiting = run.waiting_share();
  line.add_apart(fmt::format("waits for data {:.0f} %", 100 * waiting),
                 waiting >= 0.05 ? TextLook{.ink = Ink::yellow} : TextLook{.ink = Ink::dim});
  if (step.loss_scale > 0) line.add_apart(fmt::format("loss scale {:.6g}", step.loss_scale), {.ink = Ink::dim});
  line.cut(columns);
  return line;
}

/// What nothing can be told of yet.
std::vector<FrameLine> unbegun_detail(const LiveScene& scene, const SceneRun& scene_run, const LiveView& view,
                                      std::size_t columns, std::size_t rows) {
  std::vector<FrameLine> lines = {title_line(scene_run, view.ascii, columns)};
  for (FrameLine& note : run_notes(scene, scene_run, view.ascii, columns)) lines.push_back(std::move(note));
  if (scene_run.state == LiveState::waiting) lines.emplace_back(view.ascii).add("it has told nothing yet");
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

}  // namespace

std::vector<FrameLine> run_detail(const LiveScene& scene, const SceneRun& scene_run, const LiveView& view,
                                  std::size_t columns, std::size_t rows) {
  constexpr std::size_t least_chart = 5, most_machine_lines = 12, chart_place = 5;
  const LiveRun& run = *scene_run.run;
  if (!run.has_begun()) return unbegun_detail(scene, scene_run, view, columns, rows);
  std::vector<DetailBlock> blocks;
  const auto add = [&](int importance, std::vector<FrameLine> lines) {
    blocks.push_back({importance, std::move(lines)});
  };
  const auto add_line = [&](int importance, FrameLine line) {
    add(importance, line.width() > 0 ? std::vector<FrameLine>{std::move(line)} : std::vector<FrameLine>{});
  };
  const bool is_roomy = rows >= 24;
  add(9, {title_line(scene_run, view.ascii, columns), progress_line(scene, scene_run, view.ascii, columns)});
  add_line(8, numbers_line(run, view.ascii, columns));
  add_line(6, evaluation_line(run, view.ascii, columns));
  add_line(7, memory_bar(run, view.ascii, columns));
  add(view.memory ? 0 : 4, view.memory ? std::vector<FrameLine>{} : memory_legend(run, view.ascii, columns, 2));
  add_line(5, memory_figures(run, view.ascii, columns));
  add(2, view.memory ? std::vector<FrameLine>{} : memory_sparkline(run, view.ascii, columns));
  const std::size_t chart_index = blocks.size();
  add(chart_place, {});
  add(3, machine_lines(scene, scene_run, view.ascii, columns, is_roomy ? most_machine_lines : 2));
  std::vector<FrameLine> notes = run_notes(scene, scene_run, view.ascii, columns);
  // What became of the run is told before anything else of it.
  const bool has_ended_badly = !notes.empty() && scene_run.state != LiveState::running;
  if (has_ended_badly) {
    add_line(8, notes.front());
    notes.erase(notes.begin());
  }
  for (FrameLine& note : notes) add_line(1, std::move(note));

  const auto used = [&] {
    std::size_t sum = 0;
    for (const DetailBlock& block : blocks) sum += block.lines.size();
    return sum;
  };
  const auto drop_until = [&](std::size_t most, int below) {
    for (int importance = 0; importance < below && used() > most; ++importance)
      for (auto block = blocks.rbegin(); block != blocks.rend() && used() > most; ++block)
        if (block->importance == importance) block->lines.clear();
  };
  if (rows > least_chart) drop_until(rows - least_chart, chart_place - 1);
  drop_until(rows, 10);
  const std::size_t left = rows - std::min(rows, used());
  blocks[chart_index].lines = view.memory ? memory_view(run, view.ascii, columns, left)
                                          : loss_chart(run, view.log_scale, view.ascii, columns, left);
  std::vector<FrameLine> lines;
  for (DetailBlock& block : blocks)
    for (FrameLine& line : block.lines) lines.push_back(std::move(line));
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

}  // namespace trainer
