#include "cli/terminal/failure_sink.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/terminal/terminal.h"
#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/run/adaptation_report.h"

namespace trainer {

namespace {

/// What may help, of what is not set.
std::string keys_against_divergence(const Experiment& experiment) {
  const std::string& prefix = experiment.override_prefix;
  std::string text = fmt::format("a lower {}optimizer.lr", prefix);
  // one_cycle rises from a low rate by itself.
  if (experiment.schedule.type != ScheduleType::one_cycle && experiment.schedule.warmup_steps == 0)
    text += fmt::format(", or {}schedule.warmup_steps", prefix);
  if (experiment.train.clip_norm == 0) text += fmt::format(", or {}train.clip_norm=1", prefix);
  return text;
}

}  // namespace

void FailureSink::take(const Event& event) {
  if (const auto* start = std::get_if<StartEvent>(&event)) note(*start);
  if (const auto* stage = std::get_if<StageEvent>(&event)) note(*stage);
  if (std::holds_alternative<CheckpointEvent>(event)) saved_in_stage_ = true;
  if (const auto* failure = std::get_if<OutOfMemoryEvent>(&event);
      failure != nullptr && failure->is_first && !options_.is_told_before())
    tell(*failure);
  if (options_.rank > 0) {
    if (std::holds_alternative<EndEvent>(event)) write_text(stderr, std::exchange(ending_, ""));
    return;
  }
  if (const auto* adaptation = std::get_if<AdaptEvent>(&event)) tell(*adaptation);
  if (const auto* warning = std::get_if<WarningEvent>(&event)) tell(*warning);
  if (std::holds_alternative<EndEvent>(event)) write_text(stderr, std::exchange(ending_, ""));
  if (const auto* divergence = std::get_if<DivergedEvent>(&event)) tell(*divergence);
}

void FailureSink::note(const StartEvent& event) {
  device_ = event.device_kind;
  experiment_ = event.experiment;
  if (experiment_ == nullptr) return;
  adapts_ = experiment_->memory.on_oom == OnOutOfMemory::adapt;
  against_divergence_ = keys_against_divergence(*experiment_);
}

void FailureSink::note(const StageEvent& event) {
  stage_ = event.name;
  ++num_stages_;
  saved_in_stage_ = false;
  if (experiment_ != nullptr && event.index < experiment_->stages.size())
    against_divergence_ = keys_against_divergence(*experiment_->stages[event.index].experiment);
}

/// What the process began with may be in the middle of its stage; each further one begins behind a checkpoint.
bool FailureSink::is_behind_checkpoint(const OutOfMemoryEvent& event) const {
  if (event.stage.empty() || num_stages_ == 0) return false;
  return event.stage != stage_ || (num_stages_ > 1 && !saved_in_stage_);
}

void FailureSink::tell(const OutOfMemoryEvent& event) {
  const std::vector<std::string> labels = options_.layer_labels ? options_.layer_labels() : std::vector<std::string>{};
  const bool is_behind = is_behind_checkpoint(event);
  const auto holds = options_.output_holds ? options_.output_holds(event.context.planned && !is_behind)
                                           : OutOfMemoryReportOptions::Holds::nothing;
  OutOfMemoryReportOptions report = {device_, labels, options_.config_path, options_.overrides, holds};
  report.is_behind_checkpoint = is_behind;
  report.from_stage = options_.from_stage;
  report.until_stage = options_.until_stage;
  report_ = out_of_memory_report(event, report, {});
  if (options_.brief) {
    write_text(stderr, out_of_memory_message(event.context.failure, device_) + '\n');
    return;
  }
  report.full = options_.full;
  report.file = options_.directory.out_of_memory_path();
  write_text(stderr, '\n' + out_of_memory_findings(event, report, options_.style));
  ending_ = out_of_memory_ending(event, report, options_.style);
  if (adapts_)
    write_text(stderr, "\nmemory.on_oom: adapt has no settings left that fit with the same samples in each update.\n");
}

void FailureSink::leave_report() const {
  if (report_.empty()) return;
  try {
    options_.directory.write_out_of_memory(report_);
  } catch (const DataError& error) {  // what ended the run is told already, and its exit code says it
    write_text(stderr, fmt::format("{} {}\n", paint(options_.style, Ink::yellow, "Warning:"), error.what()));
  }
}

void FailureSink::tell(const AdaptEvent& event) const {
  const std::string text =
      options_.brief ? adaptation_message(event) + '\n' : '\n' + adaptation_report(event, options_.style) + '\n';
  write_text(stderr, text);
}

void FailureSink::tell(const WarningEvent& event) const {
  const std::string text = paint(options_.style, Ink::yellow, "Warning:") + ' ' +
                           wrap(event.message, static_cast<std::size_t>(options_.style.width) - 9) + '\n';
  write_text(stderr, text);
}

void FailureSink::tell(const DivergedEvent& event) const {
  std::string message = fmt::format("{} the loss is {} in step {}", paint(options_.style, Ink::red, "Diverged:"),
                                    std::isnan(event.loss) ? "not a number" : fmt::format("{:.4g}", event.loss),
                                    format_count(event.step));
  if (std::isfinite(event.loss)) message += ", but weights are not finite behind it";
  if (!event.layer.empty() || !event.tensor.empty())
    message += fmt::format("; the first value that is not finite is in {}{}{}", event.tensor,
                           event.layer.empty() ? "" : " of layer ", event.layer);
  message += "\nTry " + against_divergence_ + ".\n";
  write_text(stderr, '\n' + message);
}

}  // namespace trainer
