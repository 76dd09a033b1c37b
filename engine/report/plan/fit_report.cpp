#include "engine/report/plan/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/bytes.h"
#include "engine/report/text/change_text.h"
#include "engine/report/text/numbers_text.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

std::size_t width_of(const Style& style) { return static_cast<std::size_t>(style.width); }

std::string fit_paragraph(const std::string& text, const Style& style, const std::string& indent = "") {
  return indent + wrap(text, width_of(style) - indent.size(), indent) + '\n';
}

std::string capacity_text(const FitFindings& findings) {
  return fmt::format("{} ({})", format_bytes(findings.capacity), findings.capacity_origin);
}

std::string pasted_line(const FitFindings& findings, const std::vector<std::string>& set, const Style& style) {
  std::vector<std::string> further = set;
  if (!findings.capacity_given.empty()) further.push_back("memory.limit=" + findings.capacity_given);
  std::vector<std::string> words = {"run", findings.config_path};
  for (std::string& word : merged_overrides(findings.overrides, further)) words.push_back(std::move(word));
  return pasted_command(words, style);
}

std::string place_of(const OutOfMemoryContext& failure) {
  if (failure.refused_peak) return "while loading, for the one segment that holds every buffer";
  const std::string layer = failure.layer.empty() ? "(no layer)" : failure.layer;
  if (failure.step == 0 && failure.phase != Phase::eval) return "while loading, " + layer;
  return fmt::format("in step {}, {}, {}", format_count(failure.step), name_of(failure.phase), layer);
}

std::string too_large_text(const TooLargeValue& next) {
  const std::string value = format_count(next.value);
  if (!next.problem.empty()) return fmt::format("{} cannot be: {}", value, next.problem);
  std::string text = fmt::format("{} would take {} reserved", value, format_bytes(next.peak_reserved));
  if (next.failure) text += fmt::format(", and fail {}", place_of(*next.failure));
  return text + '.';
}

/// "4", "4 and 9", "4, 9 and 3 others".
std::string list_of(const std::vector<std::int64_t>& values) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), most); ++i)
    text += (i == 0 ? "" : i + 1 == values.size() ? " and " : ", ") + format_count(values[i]);
  return values.size() <= most ? text : fmt::format("{} and {} others", text, values.size() - most);
}

std::string maximum_report(const FitFindings& findings, const Style& style) {
  const Maximum& maximum = *findings.maximum;
  const LargestValue& found = maximum.found;
  std::string text;
  if (!found.value) {
    text += paint(style, Ink::red,
                  wrap(fmt::format("No {} from {} to {} {} {}.", maximum.key, format_count(maximum.lowest),
                                   format_count(found.highest), found.num_unknown > 0 ? "was found to fit" : "fits",
                                   capacity_text(findings)),
                       width_of(style))) +
            '\n';
    if (maximum.next) text += fit_paragraph(too_large_text(*maximum.next), style);
    return text;
  }
  text += paint(style, Ink::green,
                wrap(fmt::format("The largest {} that {} is {}.", maximum.key,
                                 found.num_unknown > 0 ? "was found to fit" : "fits", format_count(*found.value)),
                     width_of(style))) +
          '\n';
  text += fit_paragraph(fmt::format("It reserves {} of {}: {} to spare.", format_bytes(found.peak_reserved),
                                    capacity_text(findings), format_bytes(findings.capacity - found.peak_reserved)),
                        style);
  if (maximum.next) {
    text += fit_paragraph(too_large_text(*maximum.next), style);
  } else {
    text += fit_paragraph(
        fmt::format("It is the end of the range that was searched, {} to {}: memory does not bound it there.",
                    format_count(maximum.lowest), format_count(found.highest)),
        style);
  }
  if (!found.smaller_that_fail.empty()) {
    text += fit_paragraph(
        fmt::format("Below it, {} {} not fit: memory does not always grow with the value.",
                    list_of(found.smaller_that_fail), found.smaller_that_fail.size() == 1 ? "does" : "do"),
        style);
  }
  if (found.num_unknown > 0) {
    text +=
        fit_paragraph(fmt::format("Larger values may fit too: {} up to {} were too many to plan each; give a narrower "
                                  "range, --max {}=LOWEST..HIGHEST.",
                                  format_count(found.num_unknown), format_count(found.highest), maximum.key),
                      style);
  }
  text += "\nPaste:\n" + pasted_line(findings, {fmt::format("{}={}", maximum.key, *found.value)}, style);
  return text;
}

std::string choice_table(const FitFindings& findings, const Style& style) {
  TextTable table({{"#"}, {"peak reserved"}, {"an update"}, {"samples/s"}, {"time"}, {"numbers", Align::left}});
  for (std::size_t i = 0; i < findings.choices.size(); ++i) {
    const Change& choice = findings.choices[i];
    table.add_row({std::to_string(i + 1), format_bytes(choice.peak_reserved), step_time_text(choice.step_seconds),
                   format_count(static_cast<std::int64_t>(choice.samples_per_second)),
                   fmt::format("{:.2f} x", choice.relative_step_time), std::string(numbers_text(choice.numbers))});
  }
  return table.render(style);
}

std::string time_origin(const FitFindings& findings) {
  const std::string bench = trainer_command("bench");
  switch (findings.rates) {
    case MachineRates::Origin::assumed:
      return fmt::format("Times are predicted for {}: their ratios are better than they are; '{}' measures this one.",
                         findings.rates_source.empty()
                             ? "an assumed machine of this kind"
                             : findings.rates_source + ", assumed since no profile is of this one",
                         bench);
    case MachineRates::Origin::profile:
      return fmt::format("Times are predicted from the peaks and the bandwidth in {}.", findings.rates_source);
    case MachineRates::Origin::measured:
      return fmt::format("Times are predicted from what '{}' measured here ({}).", bench, findings.rates_source);
  }
  return "";
}

std::string choice_report(const FitFindings& findings, const Style& style) {
  std::string text;
  const std::string as_is =
      findings.as_is_peak == 0
          ? "As it is, it cannot be planned."
          : fmt::format("As it is, it {}{}.",
                        findings.as_is_fits ? "fits: it reserves " : "does not fit: it would reserve ",
                        format_bytes(findings.as_is_peak));
  const std::string batch = format_number_of(findings.effective_batch, "sample");
  if (findings.choices.empty()) {
    text +=
        paint(
            style, Ink::red,
            wrap(fmt::format("Nothing was found that keeps {} an update and fits {}.", batch, capacity_text(findings)),
                 width_of(style))) +
        '\n';
    return text + fit_paragraph(fmt::format("{} '{}' looks for changes of the batch, the optimizer and the model, too.",
                                            as_is, trainer_command("plan")),
                                style);
  }
  text += paint(style, Ink::green,
                wrap(fmt::format("{} that keep{} {} an update fit{} {}; the fastest first.",
                                 format_number_of(static_cast<std::int64_t>(findings.choices.size()), "way"),
                                 findings.choices.size() == 1 ? "s" : "", batch,
                                 findings.choices.size() == 1 ? "s" : "", capacity_text(findings)),
                     width_of(style))) +
          '\n';
  text += fit_paragraph(as_is, style) + '\n' + choice_table(findings, style) + '\n';
  for (std::size_t i = 0; i < findings.choices.size(); ++i) {
    const Change& choice = findings.choices[i];
    const std::string number = fmt::format("{:>3}  ", i + 1);
    const std::string indent(number.size(), ' ');
    if (choice.set.empty()) {
      text += number + paint(style, Ink::bold, change_text(choice)) + '\n';
      continue;
    }
    text += number + paint(style, Ink::bold, folded_shell_words(choice.set, width_of(style) - number.size(), indent)) +
            '\n';
    text += fit_paragraph(change_text(choice), style, indent);
  }
  text += '\n' + fit_paragraph(time_origin(findings), style);
  text += "\nPaste the fastest:\n" + pasted_line(findings, findings.choices.front().set, style);
  return text;
}

}  // namespace

std::string fit_report(const FitFindings& findings, const Style& style) {
  std::string text = fit_paragraph(
      fmt::format("Fit of {} on {} ({})", findings.experiment_name, findings.device_kind, findings.device_name), style);
  if (!findings.profile.empty())
    text += fit_paragraph(
        fmt::format("The device is described by {}; nothing has run, and no GPU was asked.", findings.profile), style);
  for (const std::string& note : findings.notes)
    text += paint(style, Ink::yellow, wrap("Note: " + note, width_of(style))) + '\n';
  text += '\n';
  return text + (findings.maximum ? maximum_report(findings, style) : choice_report(findings, style));
}

}  // namespace trainer
