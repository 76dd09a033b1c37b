#include "engine/report/live/run_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/bytes.h"
#include "engine/report/live/run_list.h"
#include "engine/report/run/metrics_text.h"
#include "engine/report/text/progress_text.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

/// What stands in an event that may be anybody's; empty where it is no text.
std::string text_in(const std::optional<Json>& event, const char* name) {
  if (!event || !event->contains(name) || !(*event)[name].is_string()) return "";
  return (*event)[name].get<std::string>();
}

std::string step_in(const std::optional<Json>& event) {
  if (!event || !event->contains("step") || !(*event)["step"].is_number_integer()) return "?";
  return format_count((*event)["step"].get<std::int64_t>());
}

/// As an `eval` event names it.
std::string recorded_metric_text(const std::string& name, double value) {
  for (const auto& [word, metric] : {std::pair{"accuracy", Metric::accuracy},
                                     {"top5", Metric::top5},
                                     {"mean_iou", Metric::mean_iou},
                                     {"dice", Metric::dice},
                                     {"mae", Metric::mae},
                                     {"r2", Metric::r2}})
    if (name == word) return metric_text(metric, value);
  if (name == "bits_per_byte") return fmt::format("{:.4g} bits a byte", value);
  return fmt::format("{} {:.4g}", name, value);
}

/// What checkpoint.best asks for; the loss where that is not told.
std::string best_text(const LiveRun& run, const RecordedEvaluation& best) {
  const Json& config = run.record().config;
  if (config.contains("checkpoint") && config["checkpoint"].is_object()) {
    const std::string metric = text_in(config["checkpoint"], "best");
    for (const auto& [name, value] : best.metrics)
      if (name == metric) return recorded_metric_text(name, value);
  }
  return "loss " + format_any_loss(best.loss);
}

std::string out_of_memory_note(const LiveRun& run) {
  const std::optional<Json>& event = run.record().out_of_memory;
  if (!event) return "out of memory";
  const std::string phase = text_in(event, "phase"), layer = text_in(event, "layer");
  return fmt::format("out of memory in step {}{}{}; see {}", step_in(event), phase.empty() ? "" : ", " + phase,
                     layer.empty() ? "" : ", " + layer, out_of_memory_file);
}

std::string diverged_note(const LiveRun& run) {
  const std::optional<Json>& event = run.record().diverged;
  const std::string layer = text_in(event, "layer");
  return fmt::format("diverged in step {}{}", step_in(event), layer.empty() ? "" : ", first in " + layer);
}

std::string state_note(const LiveScene& scene, const SceneRun& scene_run) {
  const LiveRun& run = *scene_run.run;
  switch (scene_run.state) {
    case LiveState::damaged:
      return run.damage();
    case LiveState::killed:
      return "killed: it ended without a word; 'run --resume' goes on from its last checkpoint";
    case LiveState::unknown:
      return fmt::format("it runs or ran{}, which cannot be asked from here",
                         run.host().empty() ? "" : " on " + run.host());
    case LiveState::out_of_memory:
      return out_of_memory_note(run);
    case LiveState::diverged:
      return diverged_note(run);
    case LiveState::failed:
      return "failed: " + text_in(run.record().end, "error");
    case LiveState::interrupted:
      return "interrupted; 'run --resume' goes on";
    case LiveState::running: {
      // Longer than evaluations and checkpoints of most.
      constexpr double long_silence = 60;
      const double silence = scene.now_seconds - run.written_seconds();
      return silence > long_silence ? fmt::format("nothing told for {}", format_clock(silence)) : "";
    }
    default:
      return "";
  }
}

}  // namespace

FrameLine evaluation_line(const LiveRun& run, bool ascii, std::size_t columns) {
  FrameLine line(ascii);
  if (!run.last_evaluation()) return line;
  const RecordedEvaluation& last = *run.last_evaluation();
  std::vector<std::string> told = {
      fmt::format("eval at step {}: loss {}", format_count(last.step), format_any_loss(last.loss))};
  for (const auto& [name, value] : last.metrics) told.push_back(", " + recorded_metric_text(name, value));
  // The newest loss and first metric stay in sight on a narrow screen, and the best; of the rest what has room.
  constexpr std::size_t apart = 2;
  const std::size_t num_kept = std::min<std::size_t>(told.size(), 2);
  std::size_t room = columns;
  for (std::size_t i = 0; i < num_kept; ++i) room -= std::min(room, display_width(told[i]));
  std::string best_words;
  if (const std::optional<RecordedEvaluation>& best = run.best_evaluation()) {
    const std::string of_best = "best " + best_text(run, *best);
    best_words =
        best->step == last.step ? "best so far" : fmt::format("{} at step {}", of_best, format_count(best->step));
    if (best->step != last.step && display_width(best_words) + apart > room) best_words = of_best;
    room -= std::min(room, display_width(best_words) + apart);
  }
  std::string text;
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (i >= num_kept && display_width(told[i]) > room) break;
    if (i >= num_kept) room -= display_width(told[i]);
    text += told[i];
  }
  line.add(text, {.ink = Ink::cyan});
  if (!best_words.empty()) line.add_apart(best_words, {.ink = Ink::green});
  line.cut(columns);
  return line;
}

std::vector<FrameLine> run_notes(const LiveScene& scene, const SceneRun& scene_run, bool ascii, std::size_t columns) {
  const LiveRun& run = *scene_run.run;
  std::vector<FrameLine> lines;
  const auto add = [&](const std::string& text, TextLook look) {
    lines.emplace_back(ascii).add(text, look);
    lines.back().cut(columns);
  };
  if (const std::string note = state_note(scene, scene_run); !note.empty())
    add(note, scene_run.state == LiveState::running ? TextLook{.ink = Ink::yellow} : look_of(scene_run.state));
  if (!run.has_begun()) return lines;
  if (run.num_adaptations() > 0)
    add(fmt::format("adapted to less memory {}",
                    run.num_adaptations() == 1 ? "once" : format_count(run.num_adaptations()) + " times"),
        {.ink = Ink::yellow});
  if (run.last_warning()) {
    add(fmt::format("{}, the last at step {}: {}", format_number_of(run.num_warnings(), "warning"),
                    format_count(run.last_warning()->step), run.last_warning()->message),
        {.ink = Ink::yellow});
  }
  if (run.last_checkpoint()) add("checkpoint at step " + format_count(*run.last_checkpoint()), {.ink = Ink::dim});
  return lines;
}

std::vector<FrameLine> machine_lines(const LiveScene& scene, const SceneRun& scene_run, bool ascii, std::size_t columns,
                                     std::size_t rows) {
  std::vector<FrameLine> lines;
  const auto add = [&](FrameLine line) {
    if (lines.size() == rows) return;
    line.cut(columns);
    lines.push_back(std::move(line));
  };
  if (scene_run.process) {
    const ProcessUsage& process = *scene_run.process;
    FrameLine line(ascii);
    line.add(fmt::format("process {}", process.pid), {.is_bold = true});
    line.add(fmt::format(" ({}): {:.0f} % of a processor, {} resident, {}", process.name,
                         100 * scene_run.busy_processors, format_bytes(process.resident_bytes),
                         format_number_of(process.num_threads, "thread")));
    add(std::move(line));
  }
  for (const GpuUsage& gpu : scene.gpus) {
    FrameLine line(ascii);
    line.add(fmt::format("GPU {}", gpu.index), {.is_bold = true}).add(" " + gpu.name);
    if (gpu.busy_percent) line.add_apart(fmt::format("busy {} %", *gpu.busy_percent), {.ink = Ink::green});
    line.add_apart(fmt::format("{} of {}", format_bytes(gpu.used_bytes), format_bytes(gpu.total_bytes)));
    if (gpu.celsius) line.add_apart(fmt::format("{} {}", *gpu.celsius, ascii ? "C" : "°C"));
    if (gpu.watts) line.add_apart(fmt::format("{:.0f} W", *gpu.watts));
    add(std::move(line));
    for (const DeviceProcess& process : gpu.processes) {
      FrameLine held(ascii);
      const bool is_run = scene_run.process && process.pid == scene_run.process->pid;
      held.add(fmt::format("  {:>9} {:>11}  {}{}", process.pid, format_bytes(process.num_bytes), process.name,
                           is_run ? "  (this run)" : ""),
               is_run ? TextLook{.is_bold = true} : TextLook{});
      add(std::move(held));
    }
  }
  return lines;
}

}  // namespace trainer
