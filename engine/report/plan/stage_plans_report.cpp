#include "engine/report/plan/stage_plans_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/plan/plan_report.h"
#include "engine/report/plan/prediction_plan_report.h"
#include "engine/report/plan/ranks_report.h"
#include "engine/report/plan/verification_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

/// "+1.20 MiB activation, −83.00 KiB optimizer_state": the largest changes first.
std::string changes_text(const CategoryBytes& changes) {
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < changes.size(); ++c)
    if (changes[c] != 0) order.push_back(c);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(changes[a]) > std::abs(changes[b]); });
  std::string text;
  for (const std::size_t c : order)
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", changes[c] > 0 ? "+" : "−",
                        format_bytes(std::abs(changes[c])), category_names[c]);
  return text.empty() ? "nothing" : text;
}

std::string duration_of(const PlanFindings& findings) {
  if (findings.step_seconds() <= 0) return "-";
  return format_duration(findings.step_seconds() * static_cast<double>(findings.total_steps));
}

std::string command_of_one(const PlanFindings& findings, const Style& style) {
  std::vector<std::string> words = {"plan", findings.config_path};
  words.insert(words.end(), findings.overrides.begin(), findings.overrides.end());
  words.insert(words.end(), {"--stage", findings.stage});
  if (!findings.gpu_given.empty()) words.insert(words.end(), {"--gpu", findings.gpu_given});
  if (!findings.capacity_given.empty()) words.insert(words.end(), {"--capacity", findings.capacity_given});
  return pasted_command(words, style);
}

std::string ranks_of_stages(const StagePlans& plans, const Style& style) {
  std::vector<const PlanFindings*> stages;
  for (const StagePlan& stage : plans.stages)
    if (stage.findings.has_ranks()) stages.push_back(&stage.findings);
  if (stages.empty()) return "";
  return heading(style, "What each rank holds at its peak") + ranks_table(stages, style) +
         communication_of_stages(stages, style);
}

}  // namespace

std::string stage_plans_report(const StagePlans& plans, const Style& style, bool full) {
  const auto width = static_cast<std::size_t>(style.width);
  const PlanFindings& largest = plans.stages[plans.largest()].findings;
  std::string text = wrap(fmt::format("Plan of {}: {} on {} ({})", plans.experiment_name,
                                      format_number_of(static_cast<std::int64_t>(plans.stages.size()), "stage"),
                                      largest.device_kind, largest.device_name),
                          width) +
                     '\n';
  if (largest.is_described())
    text += wrap(fmt::format("The device is described by {}; nothing has run, and no GPU was asked.", largest.profile),
                 width) +
            '\n';
  const bool keeps =
      std::any_of(plans.stages.begin(), plans.stages.end(), [](const StagePlan& stage) { return stage.kept > 0; });
  std::vector<TextTable::Column> columns = {{"stage", Align::left, Narrow::gives_way},
                                            {"fits", Align::left},
                                            {"steps"},
                                            {"batch"},
                                            {"trained"},
                                            {"peak allocated"},
                                            {"reserves"},
                                            {"purged"}};
  if (keeps) columns.push_back({"kept"});
  columns.push_back({"takes"});
  TextTable table(std::move(columns));
  const auto add_row = [&](std::vector<std::string> cells, std::int64_t kept, const std::string& takes) {
    if (keeps) cells.push_back(format_bytes(kept));
    cells.push_back(takes);
    table.add_row(std::move(cells));
  };
  for (const StagePlan& stage : plans.stages) {
    const PlanFindings& findings = stage.findings;
    add_row({findings.stage, findings.fits() ? "yes" : "no", format_count(findings.total_steps),
             format_count(findings.batch_size), format_count(stage.num_trained),
             format_bytes(findings.shown().peak_allocated), format_bytes(findings.shown().peak_reserved),
             format_bytes(stage.purged)},
            stage.kept, duration_of(findings));
  }
  for (const StagePlans::Prediction& prediction : plans.predictions) {
    const PredictionPlanFindings& findings = prediction.findings;
    add_row({prediction.name, findings.plan.fits ? "yes" : "no", "", format_count(findings.batch_size), "-",
             format_bytes(findings.shown().peak_allocated), format_bytes(findings.shown().peak_reserved),
             format_bytes(findings.shown().peak_reserved)},
            0, "");
  }
  text += '\n' + table.render(style);
  const std::string sentence = plans.fits()
                                   ? fmt::format("All stages fit. {} reserves most: {} of the capacity of {} ({}).",
                                                 largest.stage, format_bytes(largest.plan.peak_reserved),
                                                 format_bytes(largest.capacity), largest.capacity_origin)
                                   : std::string("Not all stages fit, and run begins none before all do.");
  text += '\n' + paint(style, plans.fits() ? Ink::green : Ink::red, wrap(sentence, width)) + '\n';
  text +=
      wrap(
          "Between two stages everything goes back to the device but parameters, and the optimizer's state where it "
          "goes on, which wait in host memory.",
          width) +
      '\n';
  if (keeps)
    text += wrap(
                "What is kept stays reserved: the next stage says purge: false, and begins with it in the allocator's "
                "cache.",
                width) +
            '\n';
  for (const StagePlan& stage : plans.stages)
    if (stage.is_purged_to_fit)
      text += wrap(fmt::format("{} is purged in spite of purge: false: it does not fit beside what the stage before it "
                               "has cached.",
                               stage.findings.stage),
                   width) +
              '\n';
  for (const StagePlan& stage : plans.stages)
    if (stage.findings.fits())
      for (const std::string& note : stage.findings.notes)
        text += wrap(fmt::format("Note on {}: {}", stage.findings.stage, note), width) + '\n';
  text += ranks_of_stages(plans, style) + heading(style, "What is new at the peak of each");
  for (const StagePlan& stage : plans.stages)
    text += "  " +
            wrap(fmt::format("{}: {}", stage.findings.stage, changes_text(stage.beyond_before)), width - 2, "    ") +
            '\n';
  for (const StagePlan& stage : plans.stages) {
    if (stage.findings.fits()) continue;
    text += heading(style, fmt::format("Stage {}", stage.findings.stage)) + plan_report(stage.findings, style, full);
  }
  for (const StagePlan& stage : plans.stages)
    if (stage.findings.plan.fits && stage.findings.verification)
      text += heading(style, fmt::format("Predicted against measured, stage {}", stage.findings.stage)) +
              verification_report(*stage.findings.verification, style);
  for (const StagePlans::Prediction& prediction : plans.predictions)
    if (!prediction.findings.plan.fits)
      text +=
          heading(style, fmt::format("Stage {}", prediction.name)) + prediction_plan_report(prediction.findings, style);
  if (plans.fits() && plans.stages.size() > 1) text += "\nOne of them in full:\n" + command_of_one(largest, style);
  return text;
}

}  // namespace trainer
