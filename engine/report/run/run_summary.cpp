#include "engine/report/run/run_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/memory/memory_table.h"
#include "engine/report/memory/outside_allocator.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/run/metrics_text.h"
#include "engine/report/run/waiting_text.h"
#include "engine/report/text/numbers_text.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string line(std::string_view name, const std::string& value, const Style& style) {
  constexpr std::size_t name_columns = 12;
  return "  " + paint(style, Ink::cyan, pad_right(name, name_columns)) +
         wrap(value, static_cast<std::size_t>(style.width) - name_columns - 2, std::string(name_columns + 2, ' ')) +
         '\n';
}

std::string outcome(const EndEvent& event, const Style& style) {
  if (event.status == "done")
    return paint(style, Ink::green, event.stopped_early ? "Done: stopped early, no more improvement" : "Done");
  if (event.status == "interrupted") return paint(style, Ink::yellow, "Interrupted");
  if (event.status == "oom") return paint(style, Ink::red, "Out of memory");
  if (event.status == "diverged") return paint(style, Ink::red, "Diverged");
  return paint(style, Ink::red, "Failed");
}

/// What the last evaluation found, under the name of its first number.
std::string evaluation_line(const EndEvent& event, const Style& style) {
  std::string numbers = metrics_text(event.accuracy, event.top5, event.counted);
  numbers += fmt::format("{}loss {:.4f}", numbers.empty() ? "" : ", ", *event.loss);
  const std::size_t blank = numbers.find(' ');
  const bool is_named_alone = event.accuracy.has_value() || numbers.starts_with("loss");
  return line(is_named_alone ? numbers.substr(0, blank) : "evaluation",
              (is_named_alone ? numbers.substr(blank + 1) : numbers) + " on the validation data" +
                  (event.averaged ? ", by the average of the weights" : "") +
                  (event.target_unit.empty() ? "" : ", in " + event.target_unit),
              style);
}

/// How many steps the device replayed, and why not the others; empty where it replays nothing.
std::string replay_text(const PassCounts& passes) {
  if (!passes.can_replay) return "";
  if (passes.replayed == 0) {
    if (!passes.obstacle.empty()) return "no pass replayed: " + passes.obstacle;
    return passes.moved > 0 ? "no pass replayed: buffers lay elsewhere in each than in the one before" : "";
  }
  std::string text = fmt::format("{} of {} passes replayed", format_count(passes.replayed), format_count(passes.total));
  if (passes.moved > 0)
    text += fmt::format("; {} not, because buffers lay elsewhere than in the pass before", format_count(passes.moved));
  return text;
}

/// Tokens before samples, where there are any.
std::string speed_text(const EndEvent& event) {
  const auto rate = [&](std::int64_t count) {
    return format_count(static_cast<std::int64_t>(static_cast<double>(count) / event.training_seconds));
  };
  std::string samples = fmt::format("{} samples/s: {} in {} of training", rate(event.samples),
                                    format_number_of(event.samples, "sample"), format_duration(event.training_seconds));
  if (!event.tokens) return samples;
  std::string text = fmt::format("{} tokens/s, {}", rate(event.tokens->trained), samples);
  text += fmt::format(", {}", format_number_of(event.tokens->trained, "token"));
  if (event.tokens->seen > event.tokens->trained)
    text += fmt::format(" ({} since step 0)", format_count(event.tokens->seen));
  if (event.tokens->mfu)
    text += fmt::format("; {:.1f} % of the peak in FLOPs of the model (MFU)", 100 * *event.tokens->mfu);
  return text;
}

/// A row for each stage: what it held at its end and at most, how long it took, what it reached.
std::string stage_table(const std::vector<EndEvent::Stage>& stages, const Style& style) {
  const auto has = [&](auto member) {
    return std::any_of(stages.begin(), stages.end(), [&](const EndEvent::Stage& stage) { return stage.*member; });
  };
  const bool has_accuracy = has(&EndEvent::Stage::accuracy), has_loss = has(&EndEvent::Stage::loss);
  std::vector<TextTable::Column> columns = {{"stage", Align::left, Narrow::gives_way},
                                            {"steps"},
                                            {"time"},
                                            {"held at its end"},
                                            {"peak allocated"},
                                            {"peak reserved"},
                                            {"planned", Align::right, Narrow::is_left_out}};
  if (has_loss) columns.push_back({"loss"});
  if (has_accuracy) columns.push_back({"accuracy"});
  TextTable table(std::move(columns));
  for (const EndEvent::Stage& stage : stages) {
    std::vector<std::string> cells = {
        stage.name,
        format_count(stage.steps),
        format_duration(stage.seconds),
        format_bytes(stage.consumed),
        format_bytes(stage.peak_allocated),
        format_bytes(stage.peak_reserved),
        stage.planned_peak_reserved > 0 ? format_bytes(stage.planned_peak_reserved) : "-"};
    if (has_loss) cells.push_back(stage.loss ? fmt::format("{:.4f}", *stage.loss) : "-");
    if (has_accuracy) cells.push_back(stage.accuracy ? fmt::format("{:.2f} %", 100 * *stage.accuracy) : "-");
    table.add_row(std::move(cells));
  }
  std::string text = table.render(style);
  for (const EndEvent::Stage& stage : stages)
    if (stage.stopped_early) text += fmt::format("Stage {} stopped early, no more improvement.\n", stage.name);
  return text;
}

}  // namespace

std::string run_summary(const EndEvent& event, Metric best, const std::string& event_file, const Style& style) {
  std::string text = fmt::format("\n{} after {} in {}\n", outcome(event, style), format_number_of(event.steps, "step"),
                                 format_duration(event.seconds));
  if (!event.stages.empty()) text += stage_table(event.stages, style);
  if (event.loss) text += evaluation_line(event, style);
  if (event.terms.count > 0) text += line("terms", terms_text(event.terms) + ", before their weights", style);
  if (const std::string table = confusion_text(event.counted, style); !table.empty())
    text += line("confusion", "of the last evaluation", style) + table;
  if (event.best_value && event.best_step > 0)
    text +=
        line("best", fmt::format("{} at step {}", metric_text(best, *event.best_value), format_count(event.best_step)),
             style);
  if (event.training_seconds > 0) text += line("speed", speed_text(event), style);
  if (const std::string share = waiting_share(event.data_seconds, event.training_seconds, 1); !share.empty())
    text += line("data",
                 fmt::format("training waited for samples {} of that time ({}): data.workers is how many threads read "
                             "and prepare them",
                             share, format_duration(event.data_seconds)),
                 style);
  if (event.peak_reserved > 0) {
    std::string peaks =
        fmt::format("allocated {}, reserved {}", format_bytes(event.peak_allocated), format_bytes(event.peak_reserved));
    if (event.peak_used > 0) peaks += fmt::format(", used {}", format_bytes(event.peak_used));
    text += line("peak memory", peaks, style);
    text += line("held by", category_list(event.peak_by_category), style);
    if (event.process.includes_allocator)
      text += line(
          "process",
          process_memory_text(event.process, event.planned_touched > 0 ? event.planned_touched : event.peak_reserved,
                              event.peak_resident),
          style);
    else if (!event.process.parts.empty())
      text += line("host", process_memory_text(event.process, 0, 0), style);
    if (!event.process.includes_allocator && !event.outside_allocator.empty())
      text += line("outside", named_bytes_text(event.outside_allocator) + " when the run began", style);
  }
  const std::string replay = replay_text(event.passes);
  if (!replay.empty()) text += line("CUDA graph", replay, style);
  for (const EndEvent::Adaptation& adaptation : event.adaptations)
    text += line("adapted",
                 fmt::format("at step {} to {} for {}: {}", format_count(adaptation.step),
                             adaptation.set.empty() ? "the smaller capacity" : shell_words(adaptation.set),
                             format_bytes(adaptation.capacity), numbers_text(adaptation.numbers)),
                 style);
  for (const std::string& note : event.device_notes) text += line("device", note, style);
  if (event.num_warnings > 0)
    text += line("warnings", fmt::format("{}, told above", format_count(event.num_warnings)), style);
  if (!event.last_checkpoint.empty()) text += line("checkpoint", event.last_checkpoint, style);
  if (!event.failed_events.empty()) {
    text += line("former run", "is back, since this one ended before its first checkpoint", style);
    text += line("events", event.failed_events, style);
  } else if (!event_file.empty()) {
    text += line("events", event_file, style);
  }
  return text;
}

}  // namespace trainer
