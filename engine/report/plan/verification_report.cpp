#include "engine/report/plan/verification_report.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "engine/bytes.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

struct StepCounter {
  std::string_view name;
  std::int64_t StepMemory::*value;
};

constexpr std::array<StepCounter, 6> step_counters = {{{"peak requested", &StepMemory::peak_requested},
                                                       {"peak allocated", &StepMemory::peak_allocated},
                                                       {"peak reserved", &StepMemory::peak_reserved},
                                                       {"requested after", &StepMemory::requested},
                                                       {"allocated after", &StepMemory::allocated},
                                                       {"reserved after", &StepMemory::reserved}}};

std::string name_of(const PlanVerification::Line& line) {
  if (line.step == 0) return "loading";
  return fmt::format("{} {}", line.evaluation ? "evaluation after step" : "step", format_count(line.step));
}

}  // namespace

std::int64_t num_different_bytes(const PlanVerification::Line& line) {
  std::int64_t sum = 0;
  for (const StepCounter& counter : step_counters)
    sum += std::abs(line.predicted.*counter.value - line.measured.*counter.value);
  return sum;
}

std::string verification_report(const PlanVerification& verification, const Style& style) {
  TextTable table({{"", Align::left}, {"bytes", Align::left}, {"predicted"}, {"measured"}, {"difference"}});
  for (const PlanVerification::Line& line : verification.lines) {
    for (const StepCounter& counter : step_counters) {
      const std::int64_t predicted = line.predicted.*counter.value;
      const std::int64_t measured = line.measured.*counter.value;
      table.add_row({&counter == step_counters.data() ? name_of(line) : "", std::string(counter.name),
                     format_count(predicted), format_count(measured), format_count(measured - predicted)});
    }
  }
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = table.render(style);
  if (std::none_of(verification.lines.begin(), verification.lines.end(),
                   [](const PlanVerification::Line& line) { return line.evaluation; }))
    text += "  " +
            wrap(fmt::format(
                     "No evaluation was due in the first {}.",
                     format_number_of(
                         std::max<std::int64_t>(static_cast<std::int64_t>(verification.lines.size()) - 1, 0), "step")),
                 width - 2, "  ") +
            '\n';
  text +=
      "  " +
      wrap(fmt::format("The process as a whole, libraries and data included, used {} before these steps and up to {} "
                       "after them: this is measured, and not held against the plan.",
                       format_bytes(verification.used_before), format_bytes(verification.used_highest)),
           width - 2, "  ") +
      '\n';
  if (verification.is_equal())
    return text + paint(style, Ink::green, wrap("The plan equals what was measured, to the byte.", width)) + '\n';
  return text +
         paint(
             style, Ink::red,
             wrap("The plan differs from what was measured. That is a mistake of trainer: please report it, with this "
                  "output and the configuration.",
                  width)) +
         '\n';
}

}  // namespace trainer
