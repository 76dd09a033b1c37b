#include "engine/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/fix_list.h"
#include "engine/report/memory_chart.h"
#include "engine/report/memory_table.h"
#include "engine/report/outside_allocator.h"
#include "engine/report/text_table.h"

namespace trainer {
namespace {

std::string heading(const Style& style, std::string_view text) { return '\n' + paint(style, Ink::bold, text) + '\n'; }

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

std::string stage_table(const MemoryPlan& plan, const Style& style) {
  TextTable table({{"", Align::left}, {"peak requested"}, {"peak allocated"}, {"peak reserved"}, {"allocated after"}});
  std::optional<StepMemory> other, evaluation;
  std::int64_t num_other = 0;
  for (const PlannedSteps& steps : plan.steps) {
    if (steps.evaluation) {
      evaluation = evaluation ? highest(*evaluation, steps.memory) : steps.memory;
    } else if (steps.first_step == 0) {
      table.add_row(memory_row("loading", steps.memory));
    } else if (steps.memory != plan.first_step && steps.memory != plan.steady_step) {
      other = other ? highest(*other, steps.memory) : steps.memory;
      num_other += plan.num_occurrences(steps);
    }
  }
  const bool has_steps = std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlannedSteps& steps) {
    return !steps.evaluation && steps.first_step > 0;
  });
  if (has_steps) {
    table.add_row(memory_row("first step", plan.first_step));
    table.add_row(memory_row("steady step", plan.steady_step));
  }
  if (other) table.add_row(memory_row(format_number_of(num_other, "other step"), *other));
  if (evaluation) table.add_row(memory_row("evaluation", *evaluation));
  table.add_rule();
  table.add_row({"run", format_bytes(plan.peak_requested), format_bytes(plan.peak_allocated),
                 format_bytes(plan.peak_reserved), ""});
  return table.render(style);
}

std::string verdict(const PlanFindings& findings, const Style& style) {
  const std::string capacity =
      fmt::format("the capacity of {} ({})", format_bytes(findings.capacity), findings.capacity_origin);
  const auto width = static_cast<std::size_t>(style.width);
  if (findings.plan.fits) {
    const std::int64_t margin = findings.capacity - findings.plan.peak_reserved;
    const double share =
        findings.capacity > 0 ? 100.0 * static_cast<double>(margin) / static_cast<double>(findings.capacity) : 0.0;
    std::string text = fmt::format("Fits. It reserves {} of {}: {} ({:.1f} %) to spare.",
                                   format_bytes(findings.plan.peak_reserved), capacity, format_bytes(margin), share);
    if (findings.plan.num_alloc_retries > 0)
      text += fmt::format(" The cache is given back {} to stay within it.",
                          findings.plan.num_alloc_retries == 1
                              ? "once"
                              : fmt::format("{} times", format_count(findings.plan.num_alloc_retries)));
    return paint(style, Ink::green, wrap(text, width)) + '\n';
  }
  std::string text = fmt::format("Does not fit {}.", capacity);
  if (findings.unbounded)
    text += fmt::format(" Without a bound it would reserve {}.", format_bytes(findings.unbounded->peak_reserved));
  if (findings.plan.failure) {
    const OutOfMemoryContext& failure = *findings.plan.failure;
    const std::string place = fmt::format(
        "{}, {}, {}", failure.step == 0 ? "while loading" : fmt::format("in step {}", format_count(failure.step)),
        name_of(failure.phase), failure.layer.empty() ? "(no layer)" : failure.layer);
    text += failure.refused_peak
                ? fmt::format(" It would fail while loading, for the one segment of {}; most of it is for the peak {}.",
                              format_bytes(failure.failure.segment_bytes), place)
                : fmt::format(" It would fail {}: {} for {}.", place, format_bytes(failure.failure.requested),
                              failure.buffer);
  }
  return paint(style, Ink::red, wrap(text, width)) + '\n';
}

std::string offload_sentence(const PlanFindings& findings) {
  const std::string bytes = format_bytes(findings.offload_bytes);
  if (findings.device_kind == "cpu")
    return fmt::format(
        "Activations wait in {} of this machine's memory outside the allocator: on the CPU memory.offload saves "
        "nothing.",
        bytes);
  return fmt::format("Activations wait in {} of the host's memory, page-locked and not counted here.", bytes);
}

/// What the verdict rests on: bytes that it does not count, and whether scratch is exact.
std::string premises(const PlanFindings& findings, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text =
      wrap(fmt::format("Outside the allocator, not counted here: {}.", named_bytes_text(findings.outside_allocator)),
           width) +
      '\n';
  if (findings.offload_bytes > 0) text += wrap(offload_sentence(findings), width) + '\n';
  if (!findings.workspace_bound.empty())
    text += wrap(findings.workspace_bound, width) + '\n';
  else if (findings.is_described())
    text += wrap("Scratch is exact: kernels are chosen here as they would be on that device.", width) + '\n';
  return text;
}

std::string changes(const PlanFindings& findings, const Style& style) {
  std::string text = heading(style, "What to change, each planned again");
  if (findings.largest_batch_size > 0) {
    text += fmt::format("  The largest batch that fits is {} (now {}).\n", format_count(findings.largest_batch_size),
                        format_count(findings.batch_size));
  } else if (!findings.plan.failure_in_evaluation) {
    text += "  No batch size fits, not even 1.\n";
  }
  return text + fix_list(findings.fixes, style);
}

}  // namespace

std::string plan_report(const PlanFindings& findings, const Style& style) {
  const MemoryPlan& plan = findings.shown();
  const PlanPeak& peak = plan.peak;
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = wrap(fmt::format("Plan of {}: {} of batch {} on {} ({})", findings.experiment_name,
                                      format_number_of(findings.total_steps, "step"), format_count(findings.batch_size),
                                      findings.device_kind, findings.device_name),
                          width) +
                     '\n';
  if (findings.is_described())
    text += wrap(fmt::format("The device is described by {}; nothing has run, and no GPU was asked.", findings.profile),
                 width) +
            '\n';
  text += '\n';
  text += verdict(findings, style);
  text += premises(findings, style);

  text += heading(style, findings.unbounded ? "What the run would take" : "What the run takes");
  text += stage_table(plan, style);
  if (const double share = 100 * findings.flops.overhead(); share > 0) {
    text += fmt::format("  Computing again what is not kept adds {} of a step's FLOPs.\n",
                        share < 0.1 ? "less than 0.1 %" : fmt::format("{:.1f} %", share));
  }

  text += heading(style, "Where the peak lies");
  std::string place = fmt::format("{} allocated ", format_bytes(peak.allocated));
  place += peak.step == 0 ? "while loading" : fmt::format("in step {}", format_count(peak.step));
  place += fmt::format(", {}, {}", name_of(peak.phase), peak.layer.empty() ? "(no layer)" : peak.layer);
  if (!peak.op.empty()) place += ", op " + peak.op;
  text += "  " + wrap(place, width - 2, "  ") + "\n\n";
  text += category_table(peak.live.by_category, peak.allocated, style);
  text += '\n' + layer_table(peak.live.by_layer, peak.allocated, style);
  if (!peak.live.top.empty()) text += '\n' + buffer_table(peak.live.top, peak.allocated, style);

  const std::string chart = memory_chart(peak.timeline, findings.layer_labels, style);
  if (!chart.empty()) text += heading(style, "The step with the peak (allocated)") + chart;
  if (!findings.plan.fits) text += changes(findings, style);
  return text;
}

}  // namespace trainer
