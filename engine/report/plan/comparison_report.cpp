#include "engine/report/plan/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string spare_text(const PlannedTarget& target) {
  const std::int64_t spare = target.capacity - target.peak_reserved;
  return spare < 0 ? "-" + format_bytes(-spare) : format_bytes(spare);
}

/// Empty where the batch as it is fits.
std::string batch_text(const PlannedTarget& target) {
  if (!target.batch_size_that_fits) return "";
  return *target.batch_size_that_fits > 0 ? format_count(*target.batch_size_that_fits) : "none found";
}

/// The first that does not fit, else the first.
std::string command_for_one(const PlanComparison& comparison, const Style& style) {
  const auto& targets = comparison.targets;
  const auto is_asked_for = [](const PlannedTarget& target) { return target.problem.empty() && !target.fits; };
  const auto found = std::find_if(targets.begin(), targets.end(), is_asked_for);
  const PlannedTarget& target = found != targets.end() ? *found : targets.front();
  std::vector<std::string> words = {"plan", comparison.config_path};
  words.insert(words.end(), comparison.overrides.begin(), comparison.overrides.end());
  if (!target.gpu_given.empty()) words.insert(words.end(), {"--gpu", target.gpu_given});
  if (!target.capacity_given.empty()) words.insert(words.end(), {"--capacity", target.capacity_given});
  return pasted_command(words, style, "    ");
}

std::string sentences(const PlanComparison& comparison, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text;
  const auto add = [&](const std::string& sentence) { text += "  " + wrap(sentence, width - 2, "  ") + '\n'; };
  for (const PlannedTarget& target : comparison.targets) {
    if (!target.problem.empty()) add(fmt::format("{}: {}", target.target(), target.problem));
    for (const std::string& note : target.notes) add(fmt::format("{}: {}", target.target(), note));
  }
  const auto& targets = comparison.targets;
  if (std::any_of(targets.begin(), targets.end(), [](const PlannedTarget& target) { return !target.fits; }))
    add("What does not fit is reserved without a bound, by the allocator that needs less; what is missing has a "
        "minus.");
  const auto described =
      std::find_if(targets.begin(), targets.end(), [](const PlannedTarget& target) { return !target.profile.empty(); });
  if (described != targets.end())
    add("GPUs are described by their profiles, as they are when nothing else uses them; nothing has run.");
  add("Times are predicted.");
  text += "  For one of them in full, with what to change:\n" + command_for_one(comparison, style);
  return text;
}

}  // namespace

std::string comparison_report(const PlanComparison& comparison, const Style& style) {
  std::vector<TextTable::Column> columns = {{"target", Align::left},
                                            {"fits", Align::left},
                                            {"capacity"},
                                            {"reserves"},
                                            {"to spare"},
                                            {"batch that fits"},
                                            {"a step"},
                                            {"samples/s", Align::right, Narrow::is_left_out}};
  TextTable table(std::move(columns));
  for (const PlannedTarget& target : comparison.targets) {
    std::vector<std::string> row = {target.target(), target.fits ? "yes" : "no", format_bytes(target.capacity)};
    if (!target.problem.empty()) {
      row.insert(row.end(), {"-", "-", "-", "-", "-"});
    } else {
      row.insert(row.end(), {format_bytes(target.peak_reserved), spare_text(target), batch_text(target),
                             step_time_text(target.step_seconds), samples_per_second_text(target.samples_per_second)});
    }
    table.add_row(std::move(row));
  }
  const std::string batches =
      comparison.batch_size > 0 ? "batches of " + format_count(comparison.batch_size) : "the largest batches that fit";
  std::string text = wrap(fmt::format("Plan of {} with {} on {}", comparison.experiment_name, batches,
                                      format_number_of(static_cast<std::int64_t>(comparison.targets.size()), "target")),
                          static_cast<std::size_t>(style.width));
  for (const std::string& note : comparison.notes)
    text += '\n' + paint(style, Ink::yellow, wrap("Note: " + note, static_cast<std::size_t>(style.width)));
  return text + "\n\n" + table.render(style) + '\n' + sentences(comparison, style);
}

}  // namespace trainer
