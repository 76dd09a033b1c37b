#include "engine/report/run/range_test_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/text/dot_chart.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

struct ToldRate {
  char mark;
  const char* name;
  const char* meaning;
  std::optional<SuggestedRate> suggestion;
};

std::array<ToldRate, 3> told_rates(const RangeTest& test) {
  const SuggestedRates suggested = test.suggestions();
  return {{{'v', "valley", "half through the longest valley of the loss", suggested.valley},
           {'s', "steepest", "where the loss falls fastest", suggested.steepest},
           {'m', "minimum", "a tenth of the rate of the lowest loss", suggested.minimum}}};
}

/// What is drawn: all but the last losses, which only tell that it is over.
std::size_t num_drawn_rates(const RangeTest& test) {
  constexpr std::size_t num_last = 5;
  const std::size_t count = test.smoothed().size();
  return count > 2 * num_last ? count - num_last : count;
}

std::string range_test_end_text(const RangeTest& test) {
  const auto num_steps = static_cast<std::int64_t>(test.losses().size());
  const std::string rate = fmt::format("{:.2g}", num_steps > 0 ? test.rates().back() : test.options().from);
  switch (test.end()) {
    case RangeTestEnd::finished:
      return fmt::format("All {} steps were made, up to a rate of {}.", num_steps, rate);
    case RangeTestEnd::rose:
      return fmt::format("It ended behind step {}, at {}: the smoothed loss was above 4 times its lowest.", num_steps,
                         rate);
    case RangeTestEnd::not_finite:
      return fmt::format("It ended in step {}: the loss, or a weight, was not finite any more.", num_steps + 1);
    case RangeTestEnd::interrupted:
      return fmt::format("It was interrupted behind step {}, at {}.", num_steps, rate);
  }
  return "";
}

/// The heights of columns of dots, and in which letter of the chart each of the test's points lies.
class RateChart {
 public:
  RateChart(const RangeTest& test, std::size_t columns) : count_(num_drawn_rates(test)) {
    heights_.assign(std::min(columns * dots_across, count_), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < count_; ++i) heights_[dot_of(i)] = test.smoothed()[i];
  }
  std::span<const double> heights() const { return heights_; }
  std::size_t letter_of(std::size_t point) const { return dot_of(point) / dots_across; }

 private:
  std::size_t dot_of(std::size_t point) const {
    if (count_ < 2) return 0;
    const double share = static_cast<double>(std::min(point, count_ - 1)) / static_cast<double>(count_ - 1);
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(heights_.size() - 1)));
  }

  std::size_t count_;
  std::vector<double> heights_;
};

std::string rate_chart_text(const RangeTest& test, const std::array<ToldRate, 3>& rates, const Style& style) {
  constexpr std::size_t most_columns = 60, rows = 8, least_drawn = 8;
  if (num_drawn_rates(test) < least_drawn) return "";
  const std::size_t room = static_cast<std::size_t>(std::max(style.width, 40)) - dot_chart_margin - 1;
  const RateChart chart(test, std::min(most_columns, room));
  std::string marks(most_columns, ' ');
  for (const ToldRate& rate : rates) {
    if (!rate.suggestion) continue;
    std::size_t letter = chart.letter_of(rate.suggestion->place);
    // Side by side where they are too near.
    while (letter + 1 < marks.size() && marks[letter] != ' ') ++letter;
    marks[letter] = rate.mark;
  }
  marks.erase(marks.find_last_not_of(' ') + 1);
  const std::string margin(dot_chart_margin - 1, ' ');
  std::string text = dot_chart(chart.heights(), rows, style);
  if (!marks.empty()) text += margin + "│" + paint(style, Ink::yellow, marks) + '\n';
  const std::string ends =
      fmt::format("{:.1g} to {:.1g}", test.rates().front(), test.rates()[num_drawn_rates(test) - 1]);
  const std::string title = "smoothed loss, learning rates " + ends;
  return text + margin + "└ " + (title.size() <= room ? title : ends) + '\n';
}

nlohmann::ordered_json rate_json(const std::optional<SuggestedRate>& suggestion) {
  return suggestion ? nlohmann::ordered_json(suggestion->rate) : nlohmann::ordered_json(nullptr);
}

std::string_view name_of_end(RangeTestEnd end) {
  switch (end) {
    case RangeTestEnd::finished:
      return "finished";
    case RangeTestEnd::rose:
      return "rose";
    case RangeTestEnd::not_finite:
      return "not_finite";
    case RangeTestEnd::interrupted:
      return "interrupted";
  }
  return "";
}

std::string_view name_of_schedule(ScheduleType type) {
  switch (type) {
    case ScheduleType::constant:
      return "constant";
    case ScheduleType::step:
      return "step";
    case ScheduleType::cosine:
      return "cosine";
    case ScheduleType::one_cycle:
      return "one_cycle";
  }
  return "";
}

}  // namespace

std::string suggested_rate_text(double rate) { return fmt::format("{:.2g}", rate); }

namespace {

/// The rate, or those of the layer groups of which it is the highest.
std::string rates_text(const GroupNumbers& lr, double rate) {
  if (lr.is_same_for_all() || !(lr.number > 0)) return suggested_rate_text(rate);
  const auto scaled = [&](double number) { return suggested_rate_text(number / lr.number * rate); };
  if (lr.slice.size() == 1) return fmt::format("{{slice: {}}}", scaled(lr.slice[0]));
  if (lr.slice.size() == 2) return fmt::format("{{slice: [{}, {}]}}", scaled(lr.slice[0]), scaled(lr.slice[1]));
  std::string groups;
  for (const auto& [name, number] : lr.groups)
    groups += fmt::format("{}{}: {}", groups.empty() ? "" : ", ", name, scaled(number));
  return '{' + groups + '}';
}

}  // namespace

std::string range_test_report(const RangeTestFindings& findings, const Style& style) {
  const RangeTest& test = findings.run.test;
  const auto width = static_cast<std::size_t>(style.width);
  const std::array<ToldRate, 3> rates = told_rates(test);
  const auto paragraph = [&](const std::string& text) { return wrap(text, width) + '\n'; };
  std::string text = paragraph(
      fmt::format("Learning rates of {} on {} ({}): {:.3g} to {:.3g} in {} steps, {} parameters",
                  findings.experiment_name, findings.device_kind, findings.device_name, test.options().from,
                  test.options().to, format_count(test.options().steps), format_count(findings.num_parameters)));
  if (const std::string chart = rate_chart_text(test, rates, style); !chart.empty()) text += '\n' + chart;
  text += '\n' + paragraph(range_test_end_text(test));
  if (findings.run.skipped_updates > 0)
    text +=
        paragraph(fmt::format("{} left the weights as they were, since a gradient overflowed: the loss scale falls.",
                              format_number_of(findings.run.skipped_updates, "step")));
  text += paragraph(fmt::format("{}, at most {} reserved of {}; no file was written.",
                                format_duration(findings.run.seconds), format_bytes(findings.run.memory.peak_reserved),
                                format_bytes(findings.capacity)));
  TextTable table({{"", Align::left}, {"", Align::left}, {""}, {"", Align::left, Narrow::gives_way}});
  const ToldRate* best = nullptr;
  for (const ToldRate& rate : rates) {
    if (!rate.suggestion) continue;
    if (best == nullptr) best = &rate;
    table.add_row({std::string(1, rate.mark), rate.name, suggested_rate_text(rate.suggestion->rate), rate.meaning});
  }
  if (best == nullptr)
    return text + '\n' +
           paragraph(
               "There are too few losses to suggest a rate by: the first tenth of the steps and the last 5 are "
               "not looked at. Try more --steps, or a lower --from.");
  text += '\n' + table.render(style);
  if (!rates.front().suggestion)
    text +=
        paragraph("The loss never falls: rates up to 10 times higher or a longer test (--to, --steps) may show more.");
  std::vector<std::string> words = findings.run_words;
  words.push_back(findings.override_prefix + "optimizer.lr=" + rates_text(findings.lr, best->suggestion->rate));
  text += paragraph(fmt::format(
      "Train with the {}{}:", best->name,
      findings.schedule == ScheduleType::constant
          ? ""
          : fmt::format(", as the highest rate of schedule.type: {}", name_of_schedule(findings.schedule))));
  return text + pasted_command(words, style);
}

std::string range_test_json(const RangeTestFindings& findings) {
  const RangeTest& test = findings.run.test;
  const SuggestedRates suggested = test.suggestions();
  const auto list = [](std::span<const double> numbers) {
    return nlohmann::ordered_json(std::vector<double>(numbers.begin(), numbers.end()));
  };
  return json_text({{"event", "lr_find"},
                    {"from", test.options().from},
                    {"to", test.options().to},
                    {"steps", test.options().steps},
                    {"ended", name_of_end(test.end())},
                    {"lrs", list(test.rates())},
                    {"step_losses", list(test.losses())},
                    {"losses", list(test.smoothed())},
                    {"suggestions",
                     {{"valley", rate_json(suggested.valley)},
                      {"steepest", rate_json(suggested.steepest)},
                      {"minimum", rate_json(suggested.minimum)}}},
                    {"skipped_updates", findings.run.skipped_updates},
                    {"seconds", findings.run.seconds},
                    {"memory", step_memory_of(findings.run.memory)}});
}

}  // namespace trainer
