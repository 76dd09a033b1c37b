#include "engine/report/plan/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

constexpr int width_of_all_columns = 96;

std::string spare_text(const PlannedTarget& target) {
  const std::int64_t spare = target.capacity - target.peak_reserved;
  return spare < 0 ? "-" + format_bytes(-spare) : format_bytes(spare);
}

/// Empty where the batch as it is fits.
std::string batch_text(const PlannedTarget& target) {
  if (!target.batch_size_that_fits) return "";
  return *target.batch_size_that_fits > 0 ? format_count(*target.batch_size_that_fits) : "none found";
}

std::string sentences(const PlanComparison& comparison, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text;
  const auto add = [&](const std::string& sentence) { text += "  " + wrap(sentence, width - 2, "  ") + '\n'; };
  for (const PlannedTarget& target : comparison.targets) {
    if (!target.problem.empty()) add(fmt::format("{}: {}", target.target, target.problem));
    if (!target.note.empty()) add(fmt::format("{}: {}", target.target, target.note));
  }
  const auto& targets = comparison.targets;
  if (std::any_of(targets.begin(), targets.end(), [](const PlannedTarget& target) { return !target.fits; }))
    add("What does not fit is reserved without a bound; what is missing has a minus.");
  const auto described =
      std::find_if(targets.begin(), targets.end(), [](const PlannedTarget& target) { return !target.profile.empty(); });
  if (described != targets.end())
    add("GPUs are described by their profiles, as they are when nothing else uses them; nothing has run.");
  add("Times are predicted.");
  add(fmt::format("For one of them in full, with what to change: trainer plan {} {}", comparison.config_path,
                  described != targets.end() ? "--gpu NAME" : "--capacity SIZE"));
  return text;
}

}  // namespace

std::string comparison_report(const PlanComparison& comparison, const Style& style) {
  const bool is_wide = style.width >= width_of_all_columns;
  std::vector<TextTable::Column> columns = {{"target", Align::left},
                                            {"fits", Align::left},
                                            {"capacity"},
                                            {"reserves"},
                                            {"to spare"},
                                            {"batch that fits"},
                                            {"a step"}};
  if (is_wide) columns.push_back({"samples/s"});
  TextTable table(columns);
  for (const PlannedTarget& target : comparison.targets) {
    std::vector<std::string> row = {target.target, target.fits ? "yes" : "no", format_bytes(target.capacity)};
    if (!target.problem.empty()) {
      row.insert(row.end(), {"-", "-", "-", "-"});
      if (is_wide) row.emplace_back("-");
    } else {
      row.insert(row.end(), {format_bytes(target.peak_reserved), spare_text(target), batch_text(target),
                             step_time_text(target.step_seconds)});
      if (is_wide) row.push_back(samples_per_second_text(target.samples_per_second));
    }
    table.add_row(std::move(row));
  }
  const std::string batches =
      comparison.batch_size > 0 ? "batches of " + format_count(comparison.batch_size) : "the largest batches that fit";
  std::string text = wrap(fmt::format("Plan of {} with {} on {}", comparison.experiment_name, batches,
                                      format_number_of(static_cast<std::int64_t>(comparison.targets.size()), "target")),
                          static_cast<std::size_t>(style.width));
  return text + "\n\n" + table.render(style) + '\n' + sentences(comparison, style);
}

}  // namespace trainer
