#include "engine/report/run/range_test_report.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/report/report_samples.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// A loss that falls, is lowest at a rate of 0.1 and explodes.
RangeTestFindings sample_range_test(std::int64_t steps = 100) {
  RangeTestFindings findings{.experiment_name = "digits",
                             .device_kind = "cpu",
                             .device_name = "a CPU",
                             .capacity = 1 << 30,
                             .num_parameters = 1234,
                             .schedule = ScheduleType::one_cycle,
                             .run_words = {"run", "my digits.yaml", "train.batch_size=8"},
                             .run = {.test = RangeTest({.from = 1e-7, .to = 10, .steps = steps})}};
  for (int i = 0; i < steps; ++i) {
    const double power = std::log10(range_test_rate(findings.run.test.options(), i + 1));
    if (!findings.run.test.add(power < -1 ? 2 - std::max(power + 5, 0.0) / 4 : 1 + 60 * (power + 1))) break;
  }
  return findings;
}

/// Without line breaks, and what they are followed by.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char letter : text) {
    const bool is_blank = letter == ' ' || letter == '\n';
    if (!is_blank || (!line.empty() && line.back() != ' ')) line += is_blank ? ' ' : letter;
  }
  return line;
}

}  // namespace

TEST_CASE("a range test is drawn with its suggestions, and ends with what to paste") {
  const RangeTestFindings findings = sample_range_test();
  REQUIRE(findings.run.test.end() == RangeTestEnd::rose);
  for (const int width : {100, 80, 60}) {
    const std::string text = range_test_report(findings, {false, width});
    INFO(text);
    for (const std::string& line : lines_of(text)) CHECK(display_width(line) <= static_cast<std::size_t>(width));
    const std::string words = on_one_line(text);
    CHECK_THAT(text,
               Contains("smoothed loss") && Contains("v  valley") && Contains("s  steepest") && Contains("m  minimum"));
    CHECK_THAT(words, Contains("above 4 times its lowest."));
    CHECK_THAT(words, Contains("Train with the valley, as the highest rate of schedule.type: one_cycle:"));
    CHECK_THAT(text, Contains("trainer run 'my digits.yaml' train.batch_size=8"));
    CHECK_THAT(text, Contains("optimizer.lr=" + suggested_rate_text(findings.run.test.suggestions().valley->rate)));
  }
}

TEST_CASE("a test of few losses suggests nothing and says why") {
  RangeTestFindings findings = sample_range_test(10);
  findings.run.test = RangeTest({.from = 1e-7, .to = 10, .steps = 10});
  for (const double loss : {1.0, 1.0, 1.0}) findings.run.test.add(loss);
  findings.run.test.end_not_finite();
  const std::string text = range_test_report(findings, {false, 80});
  CHECK_THAT(on_one_line(text), Contains("It ended in step 4") && Contains("too few losses to suggest a rate by"));
  CHECK_THAT(text, !Contains("optimizer.lr"));
  const auto told = nlohmann::json::parse(range_test_json(findings));
  CHECK(told["ended"] == "not_finite");
  CHECK(told["suggestions"]["valley"].is_null());
}

TEST_CASE("the event lr_find has all rates and losses, and numbers that read back to the same") {
  RangeTestFindings findings = sample_range_test();
  findings.run.skipped_updates = 3;
  const auto told = nlohmann::json::parse(range_test_json(findings));
  CHECK(told["event"] == "lr_find");
  const RangeTest& test = findings.run.test;
  REQUIRE(told["lrs"].size() == test.rates().size());
  REQUIRE(told["losses"].size() == test.rates().size());
  REQUIRE(told["step_losses"].size() == test.rates().size());
  for (std::size_t i = 0; i < test.rates().size(); ++i) {
    CHECK(told["lrs"][i].get<double>() == test.rates()[i]);
    CHECK(told["losses"][i].get<double>() == test.smoothed()[i]);
    CHECK(told["step_losses"][i].get<double>() == test.losses()[i]);
  }
  CHECK(told["suggestions"]["valley"].get<double>() == test.suggestions().valley->rate);
  CHECK(told["skipped_updates"] == 3);
}

TEST_CASE("the picture of a range test has an axis of powers of ten, both curves and the suggestions") {
  const std::string svg = range_test_plot(sample_range_test());
  CHECK_THAT(svg, Catch::StartsWith("<svg") && Catch::EndsWith("</svg>\n"));
  for (const char* part : {">1e-7<", ">1e-1<", "smoothed loss", "loss of a step", "valley 0.00", "steepest", "minimum",
                           "learning rate (logarithmic)"})
    CHECK_THAT(svg, Contains(part));
  CHECK_THAT(svg, !Contains("nan") && !Contains("inf"));
  CHECK_THAT(range_test_plot({.experiment_name = "none",
                              .device_kind = "",
                              .device_name = "",
                              .run_words = {},
                              .run = {.test = RangeTest({})}}),
             Contains("none"));
}
