#include "engine/report/plan/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/bytes.h"
#include "engine/report/memory/outside_allocator.h"
#include "engine/report/plan/layouts_table.h"
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
  // The lines behind the first quote the file.
  if (!next.problem.empty())
    return fmt::format("{} cannot be: {}", value, next.problem.substr(0, next.problem.find('\n')));
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

/// Which smaller values stand behind "everything up to it fits".
std::string smaller_values_text(const Maximum& maximum) {
  const LargestValue& found = maximum.found;
  if (found.num_proven > 0) {
    const std::string proven =
        fmt::format("{} of the smaller values {} planned, and {} {} room in the places of a larger one",
                    format_count(found.num_smaller), found.num_smaller == 1 ? "was" : "were",
                    format_count(found.num_proven), found.num_proven == 1 ? "has" : "have");
    if (found.known_from <= maximum.lowest) return proven + ".";
    return fmt::format("{}, all from {} up among them.", proven, format_count(found.known_from));
  }
  if (found.num_smaller == 0) return "";
  const char* const can_be = found.num_smaller < *found.value - maximum.lowest ? " that can be" : "";
  if (found.planned_from <= maximum.lowest && found.num_smaller == 1)
    return fmt::format("The one smaller value{} was planned, and fits too.", can_be);
  if (found.planned_from <= maximum.lowest)
    return fmt::format("All {} smaller values{} were planned, and fit too.", format_count(found.num_smaller), can_be);
  return fmt::format("{} of the smaller values {} planned, all from {} up among them; {}.",
                     format_count(found.num_smaller), found.num_smaller == 1 ? "was" : "were",
                     format_count(found.planned_from), found.num_smaller == 1 ? "it fits" : "each fits");
}

/// A value above the first that does not fit.
std::string isolated_text(const Maximum& maximum) {
  const HighestValue& isolated = maximum.isolated;
  if (!isolated.value || !maximum.next) return "";
  std::string text = fmt::format("{} fits for itself, though {} does not", format_count(*isolated.value),
                                 format_count(maximum.next->value));
  std::vector<std::int64_t> others = isolated.smaller_that_fail;
  std::erase(others, maximum.next->value);
  if (!others.empty()) text += fmt::format(", nor {}", list_of(others));
  return text + ": memory does not always grow with the value.";
}

std::string maximum_report(const FitFindings& findings, const Style& style) {
  const Maximum& maximum = *findings.maximum;
  const LargestValue& found = maximum.found;
  std::string text;
  const auto add = [&](const std::string& paragraph) {
    if (!paragraph.empty()) text += fit_paragraph(paragraph, style);
  };
  const auto add_painted = [&](Ink ink, const std::string& paragraph) {
    text += paint(style, ink, wrap(paragraph, width_of(style))) + '\n';
  };
  const std::string range = fmt::format("from {} to {}", format_count(maximum.lowest), format_count(maximum.highest));
  if (!maximum.value()) {
    add_painted(Ink::red,
                fmt::format("No {} {} {} {}.", maximum.key, range,
                            maximum.isolated.num_unknown > 0 ? "was found to fit" : "fits", capacity_text(findings)));
    if (maximum.next) add(too_large_text(*maximum.next));
    return text;
  }
  if (found.value)
    add_painted(Ink::green,
                fmt::format("Every {}{} up to {} fits.", maximum.key,
                            found.known_from > maximum.lowest ? " that was planned" : "", format_count(*found.value)));
  else
    add_painted(Ink::green, fmt::format("{} {} fits, though smaller values do not.", maximum.key,
                                        format_count(*maximum.isolated.value)));
  add(fmt::format("{} reserves {} of {}: {} to spare.", format_count(*maximum.value()),
                  format_bytes(maximum.peak_reserved()), capacity_text(findings),
                  format_bytes(findings.capacity - maximum.peak_reserved())));
  if (findings.device_kind != "cpu" && !findings.outside_allocator.empty())
    add(fmt::format("Outside the allocator, not counted in that: {}.", named_bytes_text(findings.outside_allocator)));
  if (found.value) add(smaller_values_text(maximum));
  if (found.num_unknown > 0)
    add(fmt::format(
        "Too few of the {} values above it can be: not all of them were looked at. A narrower range, {}=A..B, "
        "is searched whole.",
        format_count(found.num_unknown), maximum.key));
  else if (maximum.next)
    add(too_large_text(*maximum.next));
  else if (maximum.value() < maximum.highest)
    add(fmt::format("None of the larger values, up to {}, can be.", format_count(maximum.highest)));
  else if (maximum.ends_at_data)
    add("It is every training sample of the data set: that bounds it, not memory.");
  else
    add(fmt::format("It is the end of the range that was searched, {}: memory does not bound it there.", range));
  if (found.value) add(isolated_text(maximum));
  text += "\nPaste:\n" + pasted_line(findings, {fmt::format("{}={}", maximum.key, *maximum.value())}, style);
  return text;
}

/// With a row's ranks, where several numbers of them were searched.
std::string ranks_table(const FitFindings& findings, const Style& style) {
  TextTable table({{"#"},
                   {"ranks"},
                   {"peak reserved"},
                   {"an update"},
                   {"samples/s", Align::right, Narrow::is_left_out},
                   {"time"},
                   {"efficiency"},
                   {"numbers", Align::left}});
  for (std::size_t i = 0; i < findings.choices.size(); ++i) {
    const FitChoice& choice = findings.choices[i];
    table.add_row({std::to_string(i + 1), std::to_string(choice.num_ranks()), format_bytes(choice.peak_reserved),
                   step_time_text(choice.step_seconds), samples_per_second_text(choice.samples_per_second),
                   fmt::format("{:.2f} x", choice.relative_step_time),
                   choice.efficiency ? fmt::format("{:.0f} %", 100 * *choice.efficiency) : "-",
                   std::string(numbers_text(choice.numbers))});
  }
  return table.render(style);
}

/// How many are needed, and which are the fastest.
std::string needed_ranks_text(const FitFindings& findings) {
  std::size_t needed = 0;
  const std::size_t fastest = findings.fastest();
  for (std::size_t i = 1; i < findings.choices.size(); ++i) {
    const FitChoice &choice = findings.choices[i], &best = findings.choices[needed];
    if (std::pair(choice.num_ranks(), choice.step_seconds) < std::pair(best.num_ranks(), best.step_seconds)) needed = i;
  }
  const FitChoice &few = findings.choices[needed], &fast = findings.choices[fastest];
  const bool is_one = few.num_ranks() == 1;
  const auto row = [&](std::size_t i, std::string_view rest) {
    return fmt::format("row {}{}{}", i + 1, rest,
                       findings.choices[i].same_result()
                           ? ""
                           : fmt::format("{} changes the result", rest.empty() ? ", which" : " and"));
  };
  if (few.num_ranks() == fast.num_ranks())
    return fmt::format("{} suffice{} and {} the fastest ({}).", format_number_of(few.num_ranks(), "rank"),
                       is_one ? "s" : "", is_one ? "is" : "are", row(fastest, ""));
  return fmt::format("{} suffice{} ({}); {} are {:.1f} times as fast ({}).", format_number_of(few.num_ranks(), "rank"),
                     is_one ? "s" : "", row(needed, fmt::format(" is the fastest with {}", few.num_ranks())),
                     fast.num_ranks(), few.step_seconds / fast.step_seconds, row(fastest, ""));
}

std::string searched_ranks_text(const FitFindings& findings) {
  std::vector<std::int64_t> searched, without_links;
  std::string capacities;
  std::int64_t capacity = -1;
  for (const SearchedRanks& each : findings.searched_ranks) {
    if (!each.problem.empty()) continue;
    searched.push_back(each.num_ranks);
    if (!each.knows_links) without_links.push_back(each.num_ranks);
    if (each.capacity != capacity)
      capacities += fmt::format("{}{} from {} on", capacities.empty() ? "" : ", ", format_bytes(each.capacity),
                                format_number_of(each.num_ranks, "rank"));
    capacity = each.capacity;
  }
  std::string text = fmt::format(
      "Searched: {} rank{}. They share each batch, and the samples of an update and of a batch are those of all; what "
      "is "
      "reserved is that of rank 0, which has no smaller part than another. Each has {}.",
      counts_text(searched), searched == std::vector<std::int64_t>{1} ? "" : "s", capacities);
  if (!without_links.empty())
    text += fmt::format(" How long {} ranks wait for each other is not known, and no time has it in it.",
                        counts_text(without_links));
  return text;
}

std::string choice_table(const FitFindings& findings, const Style& style) {
  if (findings.layouts) return layouts_table(findings, style);
  if (!findings.searched_ranks.empty()) return ranks_table(findings, style);
  TextTable table({{"#"}, {"peak reserved"}, {"an update"}, {"samples/s"}, {"time"}, {"numbers", Align::left}});
  for (std::size_t i = 0; i < findings.choices.size(); ++i) {
    const Change& choice = findings.choices[i];
    table.add_row({std::to_string(i + 1), format_bytes(choice.peak_reserved), step_time_text(choice.step_seconds),
                   samples_per_second_text(choice.samples_per_second),
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

/// Whether only other numbers of ranks than the experiment's were.
bool others_were_searched(const FitFindings& findings) {
  const std::vector<SearchedRanks>& searched = findings.searched_ranks;
  return !searched.empty() && std::none_of(searched.begin(), searched.end(), [&](const SearchedRanks& each) {
    return each.num_ranks == findings.num_ranks;
  });
}

std::string processes_text(std::int64_t num_ranks) {
  return num_ranks == 1 ? ", of one process" : fmt::format(", of {} ranks", format_count(num_ranks));
}

std::string pasted_choices(const FitFindings& findings, const Style& style) {
  const std::vector<FitChoice>& choices = findings.choices;
  const std::size_t fastest = findings.fastest();
  const bool has_same = choices.front().same_result();
  std::string text;
  for (const std::size_t i : findings.pasted()) {
    const std::string what =
        i == fastest ? has_same && !choices[i].same_result() ? "the fastest, which changes the result" : "the fastest"
        : i > 0      ? "the fastest that keeps the result"
        : has_same   ? "the first, which keeps the result"
                     : "the first";
    text += fmt::format("\nPaste {}:\n{}", what, pasted_line(findings, choices[i].set, style));
  }
  return text;
}

std::string choice_report(const FitFindings& findings, const Style& style) {
  std::string text;
  const std::string as_is =
      findings.as_is_peak == 0
          ? "As it is, it cannot be planned."
          : fmt::format("As it is{}, it {}{}.",
                        findings.layouts || others_were_searched(findings) ? processes_text(findings.num_ranks) : "",
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
                wrap(fmt::format("{} that keep{} {} an update fit{} {}{}.",
                                 format_number_of(static_cast<std::int64_t>(findings.choices.size()), "way"),
                                 findings.choices.size() == 1 ? "s" : "", batch,
                                 findings.choices.size() == 1 ? "s" : "", capacity_text(findings),
                                 findings.choices.size() == 1 ? "" : "; what keeps the result first"),
                     width_of(style))) +
          '\n';
  if (!findings.searched_ranks.empty()) text += fit_paragraph(needed_ranks_text(findings), style);
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
    if (const std::string what = change_text(choice); !what.empty()) text += fit_paragraph(what, style, indent);
  }
  text += '\n' + fit_paragraph(time_origin(findings) +
                                   (findings.layouts
                                        ? " Other techniques are tried with the fastest of these layouts, where they "
                                          "are planned quickly."
                                        : " Left out: what is beaten in time and memory by one that changes the "
                                          "result no more, and other optimizers."),
                               style);
  if (!findings.searched_ranks.empty())
    text += fit_paragraph(
        "Of each number of ranks the best are named. The efficiency is what one rank with these settings and memory "
        "enough would take, of the time of all ranks.",
        style);
  return text + pasted_choices(findings, style);
}

}  // namespace

std::string fit_report(const FitFindings& findings, const Style& style) {
  std::string text = fit_paragraph(
      fmt::format("Fit of {} on {} ({})", findings.experiment_name, findings.device_kind, findings.device_name), style);
  if (!findings.profile.empty())
    text += fit_paragraph(
        fmt::format("The device is described by {}; nothing has run, and no GPU was asked.", findings.profile), style);
  if (findings.layouts)
    text += fit_paragraph(searched_layouts_text(*findings.layouts, findings.knows_links), style);
  else if (!findings.searched_ranks.empty())
    text += fit_paragraph(searched_ranks_text(findings), style);
  else if (findings.num_ranks > 1)
    text +=
        fit_paragraph(fmt::format("{} share each batch, and the samples of an update and of a batch are those of all; "
                                  "what is reserved is that of rank 0, which has no smaller part than another.{}",
                                  format_number_of(findings.num_ranks, "rank"),
                                  findings.knows_links || findings.maximum
                                      ? ""
                                      : " How long they wait for each other is not known, and no time has it in it."),
                      style);
  for (const std::string& note : findings.notes)
    text += paint(style, Ink::yellow, wrap("Note: " + note, width_of(style))) + '\n';
  text += '\n';
  return text + (findings.maximum ? maximum_report(findings, style) : choice_report(findings, style));
}

}  // namespace trainer
