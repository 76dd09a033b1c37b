#include "engine/report/plan/plan_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "engine/bytes.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::vector<std::string> memory_row(std::string name, const StepMemory& memory) {
  return {std::move(name), format_bytes(memory.peak_requested), format_bytes(memory.peak_allocated),
          format_bytes(memory.peak_reserved), format_bytes(memory.allocated)};
}

StepMemory highest(const StepMemory& a, const StepMemory& b) {
  StepMemory result = b;
  result.peak_requested = std::max(a.peak_requested, b.peak_requested);
  result.peak_allocated = std::max(a.peak_allocated, b.peak_allocated);
  result.peak_reserved = std::max(a.peak_reserved, b.peak_reserved);
  return result;
}

/// A plan's stages: loading, the first and the steady step, the other ones, evaluation.
struct Stages {
  std::optional<StepMemory> loading, other, evaluation;
  std::int64_t num_other = 0;
  std::int64_t num_steps = 0;  ///< that were planned: at least as many as the run has different ones

  explicit Stages(const MemoryPlan& plan) {
    for (const PlannedSteps& steps : plan.steps) {
      if (steps.evaluation) {
        evaluation = evaluation ? highest(*evaluation, steps.memory) : steps.memory;
      } else if (steps.first_step == 0) {
        loading = steps.memory;
      } else {
        num_steps += steps.count;
        if (steps.memory == plan.first_step || steps.memory == plan.steady_step) continue;
        other = other ? highest(*other, steps.memory) : steps.memory;
        num_other += plan.num_occurrences(steps);
      }
    }
  }
};

std::string stage_table(const MemoryPlan& plan, const Stages& stages, const Style& style) {
  TextTable table({{"", Align::left}, {"peak requested"}, {"peak allocated"}, {"peak reserved"}, {"allocated after"}});
  if (stages.loading) table.add_row(memory_row("loading", *stages.loading));
  if (stages.num_steps > 0) {
    table.add_row(memory_row("first step", plan.first_step));
    table.add_row(memory_row("steady step", plan.steady_step));
  }
  if (stages.other) table.add_row(memory_row(format_number_of(stages.num_other, "other step"), *stages.other));
  if (stages.evaluation) table.add_row(memory_row("evaluation", *stages.evaluation));
  table.add_rule();
  table.add_row({"run", format_bytes(plan.peak_requested), format_bytes(plan.peak_allocated),
                 format_bytes(plan.peak_reserved), ""});
  return table.render(style);
}

/// "1.00 MiB more" of a, seen from b.
std::string more_or_less(std::int64_t first, std::int64_t steady) {
  return fmt::format("{} {}", format_bytes(std::abs(steady - first)), steady > first ? "more" : "less");
}

std::string first_against_steady(const MemoryPlan& plan, const Stages& stages) {
  const StepMemory& first = plan.first_step;
  const StepMemory& steady = plan.steady_step;
  std::string text =
      fmt::format("Between steps {} stay allocated: parameters, optimizer state and what else loading made.",
                  format_bytes(steady.allocated));
  if (first == steady) {
    if (plan.peak_reserved > first.peak_reserved) return text + " The steady step repeats the first to the byte.";
    return text + (stages.other
                       ? " The first step reserves all that the run needs, and the steady one repeats it to the byte."
                       : " The first step reserves all that the others need: they repeat it to the byte.");
  }
  if (first.peak_requested != steady.peak_requested)
    text += fmt::format(" The first and the steady step are not of the same batches: the steady one asks for {}.",
                        more_or_less(first.peak_requested, steady.peak_requested));
  else if (first.peak_allocated != steady.peak_allocated)
    text += fmt::format(
        " The steady step asks for what the first asked for and is allocated {} at its peak: the first takes whole new "
        "segments, later ones take blocks of cached segments, of which a rest too small to be of use is not split off.",
        more_or_less(first.peak_allocated, steady.peak_allocated));
  if (first.peak_reserved != steady.peak_reserved) {
    std::string reason = "blocks that are cut otherwise the second time ask for further segments";
    if (steady.peak_reserved < first.peak_reserved)
      reason = "the cache was given back to stay within the capacity";
    else if (stages.evaluation || stages.other)
      reason = "what other steps and evaluations reserved stays in the cache, and cuts its blocks otherwise";
    text += fmt::format(" The steady step has {} reserved: {}.",
                        more_or_less(first.peak_reserved, steady.peak_reserved), reason);
  }
  return text;
}

std::string evaluation_against_training(const PlanFindings& findings, const StepMemory& evaluation) {
  const MemoryPlan& plan = findings.shown();
  std::int64_t training = 0;
  for (const PlannedSteps& steps : plan.steps)
    if (!steps.evaluation && steps.first_step > 0) training = std::max(training, steps.memory.peak_allocated);
  const std::string batch = format_count(findings.eval_batch_size);
  const EvaluationSavings& savings = findings.evaluation_savings;
  std::string text;
  if (!evaluation_sets_peak(plan)) {
    text = fmt::format("Training sets the peak. Evaluation, in batches of {}, is allocated {} less", batch,
                       format_bytes(training - evaluation.peak_allocated));
    if (findings.eval_batch_size <= 1)
      text += ".";
    else if (savings.is_proven_nothing)
      text += ": a smaller train.eval_batch_size would save nothing.";
    else if (savings.of_one_are_nothing)
      text += ": train.eval_batch_size=1 would save nothing.";
    else
      text += ", but what it leaves in the cache is cut otherwise.";
  } else if (evaluation.peak_allocated > training)
    text = fmt::format("Evaluation sets the peak: in batches of {} it is allocated {} more than training.", batch,
                       format_bytes(evaluation.peak_allocated - training));
  else
    text = fmt::format(
        "Training is allocated the most, but evaluation in batches of {} has further segments reserved, for blocks "
        "that "
        "do not fit into the cached ones.",
        batch);
  if (savings.cut)
    text += fmt::format(" With train.eval_batch_size={} the run would reserve {} and train the same.",
                        savings.cut->eval_batch_size, format_bytes(savings.cut->peak_reserved));
  return text;
}

}  // namespace

std::string stages_report(const PlanFindings& findings, const Style& style) {
  const MemoryPlan& plan = findings.shown();
  const Stages stages(plan);
  std::string text = stage_table(plan, stages, style);
  const auto add = [&](const std::string& sentences) {
    text += "  " + wrap(sentences, static_cast<std::size_t>(style.width) - 2, "  ") + '\n';
  };
  if (stages.num_steps > 0) add(first_against_steady(plan, stages));
  if (stages.evaluation && stages.num_steps > 0) add(evaluation_against_training(findings, *stages.evaluation));
  if (const double share = 100 * findings.flops.overhead(); share > 0) {
    add(fmt::format("Computing again what is not kept adds {} of a step's FLOPs.",
                    share < 0.1 ? "less than 0.1 %" : fmt::format("{:.1f} %", share)));
  }
  return text;
}

}  // namespace trainer
