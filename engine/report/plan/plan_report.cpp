#include "engine/report/plan/plan_report.h"

#include <fmt/format.h>

#include <array>

#include "engine/bytes.h"
#include "engine/report/memory/diagnosis_text.h"
#include "engine/report/memory/fix_list.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/plan/data_supply_text.h"
#include "engine/report/plan/plan_peak.h"
#include "engine/report/plan/plan_stages.h"
#include "engine/report/plan/ranks_report.h"
#include "engine/report/plan/verification_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string place_in_plan(const OutOfMemoryContext& failure) {
  return fmt::format("{}, {}, {}",
                     failure.step == 0 && failure.phase != Phase::eval
                         ? "while loading"
                         : fmt::format("in step {}", format_count(failure.step)),
                     name_of(failure.phase), failure.layer.empty() ? "(no layer)" : failure.layer);
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
                                   format_bytes(findings.plan.peak_reserved), capacity, format_bytes(margin), share) +
                       tightest_ranks_text(findings);
    if (findings.plan.num_alloc_retries > 0)
      text += fmt::format(" The cache is given back {} to stay within it.",
                          findings.plan.num_alloc_retries == 1
                              ? "once"
                              : fmt::format("{} times", format_count(findings.plan.num_alloc_retries)));
    if (findings.allocator_was_chosen && findings.allocator == AllocatorKind::planned)
      text +=
          " memory.allocator: auto stands for planned here: with segments of the caching allocator it does not fit.";
    if (findings.plan.first_placed_step >= 0)
      text += fmt::format(
          " At step {} segments of the caching allocator no longer hold what a step allocates: from there on it lies "
          "at planned places in one segment.",
          format_count(findings.plan.first_placed_step));
    if (const std::string others = ranks_that_do_not_fit(findings); !others.empty()) {
      text.replace(0, 1, "Rank 0 f");
      return paint(style, Ink::red, wrap(fmt::format("Does not fit on every rank: {}. {}", others, text), width)) +
             '\n';
    }
    return paint(style, Ink::green, wrap(text, width)) + '\n';
  }
  std::string text = fmt::format("Does not fit {}.", capacity);
  if (findings.unbounded)
    text += fmt::format(" Without a bound it would reserve {}{}.", format_bytes(findings.unbounded->peak_reserved),
                        findings.planned_peak > 0 && findings.planned_peak < findings.unbounded->peak_reserved
                            ? fmt::format(", or {} with memory.allocator: planned", format_bytes(findings.planned_peak))
                            : "");
  if (findings.plan.failure) {
    const OutOfMemoryContext& failure = *findings.plan.failure;
    const std::string place = place_in_plan(failure);
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
  std::string text = process_line(findings.process, findings.shown().peak_touched, findings.outside_allocator, style);
  if (findings.offload_bytes > 0) text += wrap(offload_sentence(findings), width) + '\n';
  if (!findings.workspace_bound.empty())
    text += wrap(findings.workspace_bound, width) + '\n';
  else if (findings.is_described())
    text += wrap("Scratch is exact: kernels are chosen here as they would be on that device.", width) + '\n';
  for (const std::string& note : findings.notes) text += paint(style, Ink::yellow, wrap("Note: " + note, width)) + '\n';
  return text;
}

std::string predicted_time(const PlanFindings& findings, const Style& style) {
  if (findings.step_seconds() <= 0 || findings.total_steps == 0) return "";
  const std::string tokens = findings.tokens_per_sample == 0
                                 ? ""
                                 : fmt::format(", {} tokens/s", samples_per_second_text(findings.tokens_per_second()));
  return wrap(fmt::format("A step takes about {}: {} samples/s{}. {}", step_time_text(findings.step_seconds()),
                          samples_per_second_text(findings.samples_per_second()), tokens,
                          rates_sentence(findings.rates, findings.rates_source)),
              static_cast<std::size_t>(style.width)) +
         '\n';
}

/// "on rank 1 (stage 2 of 2: third to head), "
std::string place_of_stage(const PlanFindings& findings) {
  if (findings.parallel.pipeline == 1) return "";
  const RankPlan& rank = findings.ranks.plans[findings.failing_stage.value_or(0)];
  return fmt::format("on {}{}, ", ranks_text(rank), stage_text(rank, findings));
}

std::string headline(const PlanFindings& findings) {
  std::string text = fmt::format("Does not fit {}", findings.device_name);
  if (findings.failure()) {
    const OutOfMemoryContext& failure = *findings.failure();
    text += fmt::format(": out of memory {}{}{}", place_of_stage(findings), place_in_plan(failure),
                        failure.refused_peak ? "" : fmt::format(", for {}", failure.buffer));
  }
  return text + '.';
}

/// What plans the change for the same target, or starts the run that it makes fit here.
std::string line_to_paste(const PlanFindings& findings, const Change& fix, const Style& style) {
  const bool is_here = findings.gpu_given.empty() && findings.capacity_given.empty();
  std::vector<std::string> words = {is_here ? "run" : "plan", findings.config_path};
  for (std::string& word : merged_overrides(findings.overrides, fix.set)) words.push_back(std::move(word));
  if (!findings.gpu_given.empty()) words.insert(words.end(), {"--gpu", findings.gpu_given});
  if (!findings.capacity_given.empty()) words.insert(words.end(), {"--capacity", findings.capacity_given});
  return fmt::format("Paste the first{}:\n{}", is_here ? "" : ", to plan it as a whole", pasted_command(words, style));
}

/// What stands last on the screen where it does not fit.
std::string ending(const PlanFindings& findings, const Style& style, bool full) {
  const auto width = static_cast<std::size_t>(style.width);
  const std::vector<Change>& fixes = findings.fixes;
  std::string text = '\n' + paint(style, Ink::red, wrap(headline(findings), width)) + '\n';
  if (const std::string missing = missing_memory_text(findings.diagnosis); !missing.empty())
    text += wrap(missing, width) + '\n';
  if (const LargestValue& batch = findings.largest_batch; batch.value) {
    const std::string largest = format_count(*batch.value);
    text +=
        wrap(fmt::format("Every batch{} up to {} fits (now {}); {} leaves {} of the capacity{}.",
                         batch.known_from > 1 ? " that was planned" : "", largest, format_count(findings.batch_size),
                         largest, format_bytes(findings.capacity - batch.peak_reserved),
                         findings.is_described() && !findings.outside_allocator.empty()
                             ? ", and what lies outside the allocator is an estimate"
                             : ""),
             width) +
        '\n';
  } else if (findings.one_sample_is_too_many) {
    text += "A batch of 1 does not fit either.\n";
  }
  text += heading(style, "What to change so that it fits, each planned again");
  text += fix_list(fixes, style, full ? fixes.size() : num_fixes_of_ending);
  if (!full && fixes.size() > num_fixes_of_ending)
    text += fmt::format("  {} more with --full.\n", fixes.size() - num_fixes_of_ending);
  if (!fixes.empty() && fixes.front().fits) text += line_to_paste(findings, fixes.front(), style);
  return text;
}

}  // namespace

std::string plan_report(const PlanFindings& findings, const Style& style, bool full) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = wrap(fmt::format("Plan of {}{}: {} of batch {} on {} ({})", findings.experiment_name,
                                      findings.stage.empty() ? "" : ", stage " + findings.stage,
                                      format_number_of(findings.total_steps, "step"), format_count(findings.batch_size),
                                      findings.device_kind, findings.device_name),
                          width) +
                     '\n';
  if (findings.is_described())
    text += wrap(fmt::format("The device is described by {}; nothing has run, and no GPU was asked.", findings.profile),
                 width) +
            '\n';
  text += '\n' + verdict(findings, style) + premises(findings, style) + predicted_time(findings, style) +
          data_supply_text(findings, style);
  if (findings.has_ranks())
    text += heading(style, "What each rank holds at its peak") + ranks_table(std::array{&findings}, style) +
            (full ? '\n' + ranks_by_category_table(findings, style) + '\n' : std::string()) +
            wrap("All else here is of rank 0. " + communication_text(findings), width) + '\n';
  if (!findings.ranks.shards.empty())
    text += heading(style, "What rank 0 would hold, and send, sharing the model") + shards_table(findings, style);
  text += heading(style, findings.unbounded ? "What the run would take" : "What the run takes");
  text += stages_report(findings, style);
  if (const std::string process = process_memory_table(findings.process, findings.shown().peak_touched, style);
      !process.empty())
    text += heading(style, findings.process.includes_allocator ? "What the process holds" : "What the host holds") +
            process;
  text += peak_report(findings, style);
  if (findings.is_advised()) {
    if (const std::string reasons = diagnosis_text(findings.diagnosis, style); !reasons.empty())
      text += heading(style, "Why it does not fit, and what is not enough") + reasons;
    text += ending(findings, style, full);
  }
  if (const std::string others = ending_of_ranks(findings, style); !others.empty()) text += '\n' + others;
  if (findings.verification)
    text += heading(style, "Predicted against measured") + verification_report(*findings.verification, style);
  return text;
}

}  // namespace trainer
