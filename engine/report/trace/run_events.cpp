#include "engine/report/trace/run_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/config/text/json_input.h"

namespace trainer {
namespace {

constexpr int row_of_training = 1;
constexpr int row_of_happenings = 2;

/// More than a century: what a changed file says may be anything.
constexpr std::int64_t most_run_nanoseconds = std::int64_t{1} << 62;

std::int64_t run_nanoseconds(double seconds) {
  constexpr double most_seconds = 3.2e9, of_a_second = 1e9;
  return std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, most_seconds) * of_a_second) : 0;
}

class RunEvents {
 public:
  RunEvents(const RunRecord& run, const RunTimes& times, int group, TraceEventWriter& events)
      : run_(run),
        times_(times),
        training_{group, row_of_training},
        happenings_{group, row_of_happenings},
        events_(events) {}

  void write() {
    events_.name_group(training_.group, fmt::format("run of {}: as it was measured, on {}; steps one after the other",
                                                    run_.name, run_.device_name));
    events_.name_row(training_, "training");
    events_.name_row(happenings_, "saved, warned, changed");
    write_stretches();
    write_steps();
    write_evaluations();
    write_happenings();
    write_counters();
  }

 private:
  using Span = RunTimes::Span;

  /// A step or an evaluation.
  struct Item {
    Span span;
    std::int32_t stage = 0;
    std::int64_t epoch = 0;
  };

  std::vector<Item> items_in_order() const {
    std::vector<Item> items;
    for (std::size_t i = 0; i < run_.steps.size(); ++i)
      items.push_back({times_.step(i), run_.steps[i].stage, run_.steps[i].epoch});
    for (std::size_t i = 0; i < run_.evaluations.size(); ++i)
      items.push_back({times_.evaluation(i), run_.evaluations[i].stage, run_.evaluations[i].epoch});
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.span.begin < b.span.begin; });
    return items;
  }

  /// A slice for each stretch of items that are alike.
  template <typename IsAlike, typename NameOf>
  void write_alike(const std::vector<Item>& items, IsAlike&& is_alike, NameOf&& name_of_item) {
    for (std::size_t begin = 0; begin < items.size();) {
      std::size_t end = begin + 1;
      while (end < items.size() && is_alike(items[begin], items[end])) ++end;
      events_.slice(training_, name_of_item(items[begin]), items[begin].span.begin, items[end - 1].span.end);
      begin = end;
    }
  }

  void write_stretches() {
    const std::vector<Item> items = items_in_order();
    const auto same_stage = [](const Item& a, const Item& b) { return a.stage == b.stage; };
    write_alike(items, same_stage, [&](const Item& item) {
      return fmt::format("stage {}", run_.stage_names[static_cast<std::size_t>(item.stage)]);
    });
    write_alike(
        items, [&](const Item& a, const Item& b) { return same_stage(a, b) && a.epoch == b.epoch; },
        [](const Item& item) {
          return item.epoch == 0 ? std::string("before the first epoch") : fmt::format("epoch {}", item.epoch);
        });
  }

  static TraceArguments& add_memory(const RecordedMemory& memory, TraceArguments& arguments) {
    return arguments.number("peak requested", memory.peak_requested)
        .number("peak allocated", memory.peak_allocated)
        .number("peak reserved", memory.peak_reserved)
        .number("device used", memory.device_used)
        .number("allocation retries", memory.alloc_retries);
  }

  void write_steps() {
    for (std::size_t i = 0; i < run_.steps.size(); ++i) {
      const RecordedStep& step = run_.steps[i];
      const Span span = times_.step(i);
      TraceArguments arguments;
      arguments.number("step", step.step)
          .real("loss", step.loss)
          .real("learning rate", step.learning_rate)
          .number("samples", step.samples)
          .real("samples a second", step.samples_per_second);
      if (step.skipped) arguments.text("skipped", "gradients were not finite, and nothing was updated");
      events_.slice(training_, fmt::format("step {}", step.step), span.begin, span.end,
                    add_memory(step.memory, arguments));
      const std::int64_t waited = std::min(run_nanoseconds(step.data_seconds), span.end - span.begin);
      if (waited > 0)
        events_.slice(training_, "waiting for data", span.begin, span.begin + waited,
                      TraceArguments().text("place", "in all of the step, shown at its beginning"));
    }
  }

  void write_evaluations() {
    for (std::size_t i = 0; i < run_.evaluations.size(); ++i) {
      const RecordedEvaluation& evaluation = run_.evaluations[i];
      TraceArguments arguments;
      arguments.number("step", evaluation.step).real("loss", evaluation.loss);
      for (const auto& [metric, value] : evaluation.metrics) arguments.real(metric, value);
      arguments.number("samples", evaluation.samples);
      if (evaluation.best) arguments.text("best", "so far");
      events_.slice(training_, "evaluation", times_.evaluation(i).begin, times_.evaluation(i).end,
                    add_memory(evaluation.memory, arguments));
    }
  }

  /// What only an unsigned number holds.
  static bool is_beyond(const Json& value) {
    return value.is_number_unsigned() &&
           value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }

  /// Of an event as it was told: its scalars.
  static TraceArguments arguments_of(const Json& event) {
    TraceArguments arguments;
    for (const auto& [key, value] : event.items()) {
      if (key == "event") continue;
      if (value.is_string())
        arguments.text(key, value.get<std::string>());
      else if (value.is_number_integer() && !is_beyond(value))
        arguments.number(key, value.get<std::int64_t>());
      else if (value.is_number())
        arguments.real(key, value.get<double>());
    }
    return arguments;
  }

  std::int64_t time_of(const Json& event) const {
    try {
      const std::optional<JsonInput<Json>> step = JsonInput<Json>(event).find("step");
      return step && !step->is_null() ? times_.behind_step(run_, step->integer()) : times_.whole();
    } catch (const JsonMistake& mistake) {
      throw DataError(fmt::format("{}: {}", run_.path, mistake.what()));
    }
  }

  void write_happenings() {
    for (const std::int64_t step : run_.checkpoints)
      events_.instant(happenings_, "checkpoint", times_.behind_step(run_, step), TraceArguments().number("step", step));
    for (const RecordedWarning& warning : run_.warnings)
      events_.instant(happenings_, "warning", times_.behind_step(run_, warning.step),
                      TraceArguments().number("step", warning.step).text("message", warning.message));
    for (const Json& change : run_.adaptations)
      events_.instant(happenings_, "settings changed to fit", time_of(change), arguments_of(change));
    if (run_.out_of_memory)
      events_.instant(happenings_, "out of memory", time_of(*run_.out_of_memory), arguments_of(*run_.out_of_memory));
    if (run_.diverged) events_.instant(happenings_, "diverged", time_of(*run_.diverged), arguments_of(*run_.diverged));
    if (run_.end)
      events_.instant(happenings_, fmt::format("end: {}", run_.status()), times_.whole(), arguments_of(*run_.end));
  }

  void count(std::string_view name, std::int64_t time, std::string_view unit, double value) {
    TraceArguments series;
    events_.counter(training_.group, name, time, series.real(unit, value));
  }

  void count_memory(const RecordedMemory& memory, std::int64_t time) {
    const auto count_bytes = [&](std::string_view name, std::int64_t num_bytes) {
      events_.counter(training_.group, name, time, TraceArguments().number("bytes", num_bytes));
    };
    count_bytes("peak allocated", memory.peak_allocated);
    count_bytes("peak reserved", memory.peak_reserved);
    count_bytes("device used", memory.device_used);
  }

  void write_counters() {
    for (std::size_t i = 0; i < run_.steps.size(); ++i) {
      const RecordedStep& step = run_.steps[i];
      const std::int64_t time = times_.step(i).begin;
      count("loss", time, "loss", step.loss);
      count("learning rate", time, "rate", step.learning_rate);
      count("samples a second", time, "samples", step.samples_per_second);
      if (step.tokens_per_second > 0) count("tokens a second", time, "tokens", step.tokens_per_second);
      if (step.mfu > 0) count("model FLOPs utilization", time, "part", step.mfu);
      if (step.loss_scale > 0) count("loss scale", time, "scale", step.loss_scale);
      count_memory(step.memory, time);
    }
    for (std::size_t i = 0; i < run_.evaluations.size(); ++i) {
      const RecordedEvaluation& evaluation = run_.evaluations[i];
      const std::int64_t time = times_.evaluation(i).begin;
      count("evaluation: loss", time, "loss", evaluation.loss);
      for (const auto& [metric, value] : evaluation.metrics)
        count(fmt::format("evaluation: {}", metric), time, metric, value);
      count_memory(evaluation.memory, time);
    }
  }

  const RunRecord& run_;
  const RunTimes& times_;
  const TraceEventWriter::Track training_, happenings_;
  TraceEventWriter& events_;
};

}  // namespace

RunTimes::RunTimes(const RunRecord& run) {
  std::size_t next = 0;  // evaluation
  const auto add = [&](std::vector<Span>& spans, double seconds) {
    const std::int64_t begin = whole_;
    whole_ += std::min(run_nanoseconds(seconds), most_run_nanoseconds - whole_);
    spans.push_back({begin, whole_});
  };
  const auto add_evaluations_before = [&](std::int64_t step) {
    for (; next < run.evaluations.size() && run.evaluations[next].step < step; ++next)
      add(evaluations_, run.evaluations[next].seconds);
  };
  for (const RecordedStep& step : run.steps) {
    add_evaluations_before(step.step);
    add(steps_, step.seconds);
  }
  for (; next < run.evaluations.size(); ++next) add(evaluations_, run.evaluations[next].seconds);
}

std::int64_t RunTimes::behind_step(const RunRecord& run, std::int64_t step) const {
  const auto behind =
      std::upper_bound(run.steps.begin(), run.steps.end(), step,
                       [](std::int64_t number, const RecordedStep& each) { return number < each.step; });
  if (behind == run.steps.begin()) return 0;
  return steps_[static_cast<std::size_t>(behind - run.steps.begin()) - 1].end;
}

std::optional<RunTimes::Span> RunTimes::find(const RunRecord& run, const std::string& stage, std::int64_t step,
                                             bool is_evaluation) const {
  std::int64_t before = 0;
  if (!stage.empty()) {
    const auto first = std::find_if(run.steps.begin(), run.steps.end(), [&](const RecordedStep& each) {
      return run.stage_names[static_cast<std::size_t>(each.stage)] == stage;
    });
    if (first == run.steps.end()) return std::nullopt;
    before = first->step - 1;
  }
  const auto find_in = [&](const auto& recorded, const std::vector<Span>& spans) -> std::optional<Span> {
    for (std::size_t i = 0; i < recorded.size(); ++i)
      if (recorded[i].step == before + step) return spans[i];
    return std::nullopt;
  };
  return is_evaluation ? find_in(run.evaluations, evaluations_) : find_in(run.steps, steps_);
}

void write_run_events(const RunRecord& run, const RunTimes& times, int group, TraceEventWriter& events) {
  RunEvents(run, times, group, events).write();
}

}  // namespace trainer
