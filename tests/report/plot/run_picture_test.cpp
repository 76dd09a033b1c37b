#include "engine/report/plot/run_picture.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/errors.h"
#include "tests/refusal.h"
#include "tests/report/plot/plot_text.h"
#include "tests/report/record/recorded_runs.h"

using namespace trainer;
using Catch::Contains;

namespace {

const CurvePanel& panel_named(const CurvePicture& picture, const std::string& title) {
  for (const CurvePanel& panel : picture.panels)
    if (panel.title == title) return panel;
  FAIL("there is no panel " << title);
  return picture.panels.front();
}

std::vector<double> xs_of(const PlotCurve& curve) {
  std::vector<double> xs;
  for (const PlotPoint& point : curve.points) xs.push_back(point.x);
  return xs;
}

void check_widths(const std::string& text, int width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(display_width(line) <= static_cast<std::size_t>(width));
  }
}

}  // namespace

TEST_CASE("a run is drawn over steps, over the seconds of steps and evaluations, and over parts of epochs") {
  std::vector<RunRecord> records = {recorded_run("{}", {4, 3, 2, 1, 0.5, 0.25}, 1)};
  records[0].evaluations = {recorded_evaluation(2, 2.5, 0.5), recorded_evaluation(6, 0.5, 0.75)};
  const auto losses = [&](RunAxis axis) {
    return run_picture(records, {.of = {"loss"}, .axis = axis}).panels.front().curves;
  };
  CHECK(xs_of(losses(RunAxis::step)[0]) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(xs_of(losses(RunAxis::step)[1]) == std::vector<double>{2, 6});
  CHECK(xs_of(losses(RunAxis::time)[0]) == std::vector<double>{10, 11, 12.25, 13.25, 14.25, 15.25});
  CHECK(xs_of(losses(RunAxis::epoch)[0]) == std::vector<double>{0.25, 0.5, 0.75, 1, 1.25, 1.5});
}

TEST_CASE("memory has its capacity and planned peak where they are near, and stages are marks") {
  std::vector<RunRecord> records = {recorded_run("{}", {4, 3, 2, 1})};
  records[0].planned_peak_reserved = 10 << 20;
  const CurvePicture far = run_picture(records, {.of = {"memory"}});
  CHECK_THAT(panel_named(far, "memory").remark, Contains(""));
  REQUIRE(panel_named(far, "memory").levels.size() == 1);  // 64 MiB over 20 MiB used
  CHECK(panel_named(far, "memory").levels[0].label == "capacity 64.00 MiB");
  CHECK(panel_named(far, "memory").curves.back().figure == "planned peak reserved");
  records[0].capacity = std::int64_t{1} << 40;
  records[0].planned_peak_reserved = 0;
  for (const int first : {1, 3})
    records[0].stages.push_back({{"stage", first == 1 ? "head" : "all"},
                                 {"first_step", first},
                                 {"steps_per_epoch", 2},
                                 {"planned_peak_reserved", first << 20}});
  const CurvePicture staged = run_picture(records, {.of = {"memory"}});
  CHECK(panel_named(staged, "memory").levels.empty());
  CHECK(panel_named(staged, "memory").remark == "capacity 1.00 TiB, far above");
  REQUIRE(staged.marks.size() == 2);
  CHECK((staged.marks[1].label == "all" && staged.marks[1].x == 2));
  const PlotCurve& planned = panel_named(staged, "memory").curves.back();
  CHECK(planned.points.front().y == 1 << 20);
  CHECK(planned.points.back().y == 3 << 20);
}

TEST_CASE("several runs are named by the keys that differ, and by their path where none does") {
  std::vector<RunRecord> records = {recorded_run(R"({"optimizer":{"lr":0.1},"name":"a"})", {4, 3}),
                                    recorded_run(R"({"optimizer":{"lr":0.2},"name":"b"})", {4, 3})};
  records[1].diverged = Json::object();
  records[1].end = Json::parse(R"({"status":"diverged"})");
  CurvePicture picture = run_picture(records, {.of = {"loss"}});
  REQUIRE(picture.owners.size() == 2);
  CHECK(picture.owners[0].label == "lr=0.1 (unfinished)");
  CHECK(picture.owners[1].label == "lr=0.2 (diverged)");
  // The keys first that tell more of them apart, and what trains otherwise before what it runs in.
  records[0].config = Json::parse(R"({"memory":{"limit":1},"train":{"amp":"off"},"model":{"width":1},"loss":"mse"})");
  records[1].config = Json::parse(R"({"memory":{"limit":2},"train":{"amp":"off"},"model":{"width":2},"loss":"l1"})");
  records.push_back(records[0]);
  records[2].config = Json::parse(R"({"memory":{"limit":1},"train":{"amp":"bf16"},"model":{"width":1},"loss":"mse"})");
  picture = run_picture(records, {.of = {"loss"}});
  CHECK(picture.owners[2].label == "amp=bf16, loss=mse, width=1 and 1 more (unfinished)");
  CHECK(picture.owners[1].label == "amp=off, loss=l1, width=2 and 1 more (diverged)");
  records.pop_back();
  records[1].config = records[0].config;
  picture = run_picture(records, {.of = {"loss"}});
  CHECK(picture.owners[0].label == "runs/a (unfinished)");
}

TEST_CASE("steps whose times add up to no number are left out over the time") {
  std::vector<RunRecord> records = {recorded_run("{}", {4, 3, 2, 1})};
  records[0].evaluations = {recorded_evaluation(1, 2, 0.5), recorded_evaluation(4, 2, 0.5)};
  for (RecordedStep& step : records[0].steps) step.seconds = 1e308;
  for (int i = 1; i <= 4; i += 2)
    records[0].stages.push_back(
        {{"stage", "s"}, {"first_step", i}, {"steps_per_epoch", 4}, {"planned_peak_reserved", 1 << 20}});
  for (const std::size_t num_runs : {1, 2}) {
    records.resize(num_runs, recorded_run("{}", {4, 3}));
    const CurvePicture picture = run_picture(records, {.of = {"loss", "memory"}, .axis = RunAxis::time});
    CHECK(xs_of(picture.panels.front().curves.front()) == std::vector<double>{1e308});
    check_widths(picture_text(picture, {.color = false, .width = 80}), 80);
    const std::string svg = picture_svg(picture);
    CHECK(xml_mistake(svg) == "");
    CHECK_THAT(svg, !Contains("nan") && !Contains("inf"));
  }
}

TEST_CASE("what has no place in a picture is not drawn") {
  CurvePicture picture{.title = "t", .x_title = "step", .x_end = INFINITY};
  CurvePanel panel{.title = "loss", .axis = linear_axis(0, 4)};
  for (const CurveForm form : {CurveForm::solid, CurveForm::marks, CurveForm::crosses})
    panel.curves.push_back({.letter = "t", .form = form, .points = {{INFINITY, 4}, {NAN, 1}}});
  panel.levels.push_back({"capacity", "c", NAN});
  picture.panels.push_back(panel);
  picture.marks = {{INFINITY, "m"}};
  picture.x_ticks = {{NAN, "x"}};
  check_widths(picture_text(picture, {.color = false, .width = 60}), 60);
  picture.x_ticks.clear();
  CHECK_THAT(picture_svg(picture), !Contains("nan") && !Contains("inf"));
}

TEST_CASE("losses that explode leave the picture, and what is not finite is a gap") {
  std::vector<RunRecord> records = {recorded_run(R"({"seed":1})", {2, 1.5, 1, 0.5}),
                                    recorded_run(R"({"seed":2})", {2, 1e20, NAN, NAN})};
  const CurvePicture picture = run_picture(records, {.of = {"loss"}});
  CHECK(picture.panels.front().axis.end == Approx(4));
  CHECK_THAT(picture.panels.front().remark, Contains("1e+20"));
  const std::string svg = picture_svg(picture);
  CHECK_THAT(svg, !Contains("nan") && !Contains("inf"));
  CHECK(xml_mistake(svg) == "");
  // All points may be without a number.
  records[0].steps.resize(1);
  records[0].steps[0].loss = NAN;
  records.pop_back();
  CHECK(xml_mistake(picture_svg(run_picture(records, {}))) == "");
}

TEST_CASE("pictures keep the width, are XML, and show hostile names as text") {
  std::vector<RunRecord> records;
  for (int i = 0; i < 26; ++i) {
    const Json config = {{"name", "x"},
                         {"data", {{"root", std::string(5000, 'r') + "<b>\x1b[31m\"&'" + std::to_string(i)}}}};
    records.push_back(recorded_run(config.dump(), {4, 3, 2.0 + i, 1}));
    records.back().path = records.back().folder = std::string(10'000, 'p') + "\x1b]0;x\x07" + std::to_string(i);
    records.back().evaluations = {recorded_evaluation(4, 1, 0.5)};
    records.back().stages.push_back({{"stage", "<s>" + std::string(300, 's')},
                                     {"first_step", i % 3 + 1},
                                     {"steps_per_epoch", 2},
                                     {"planned_peak_reserved", 0}});
  }
  for (const std::size_t num_runs : {1, 2, 26}) {
    const std::vector<RunRecord> some(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(num_runs));
    const CurvePicture picture = run_picture(some, {.of = {"loss", "lr", "memory", "speed", "accuracy"}});
    for (const int width : {60, 80, 100}) {
      const std::string text = picture_text(picture, {.color = false, .width = width});
      check_widths(text, width);
      CHECK(text.find_first_of("\x1b\x07") == std::string::npos);
    }
    check_widths(picture_text(picture, {.color = true, .width = 80}), 80);
    const std::string svg = picture_svg(picture);
    CHECK(xml_mistake(svg) == "");
    CHECK_THAT(svg, !Contains("<b>") && !Contains("<s>"));
  }
}

TEST_CASE("long runs are thinned, and keep the lowest and highest of what they have") {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 100'000; ++i) points.push_back({static_cast<double>(i), 1 + 0.001 * (i % 7)});
  points[54'321].y = 100;
  points[54'322].y = -100;
  points[70'000].y = NAN;
  const std::vector<PlotPoint> few = thinned(points, 0, 100'000, 400);
  CHECK(few.size() <= 4 * 400 + 1);
  const auto holds = [&](double x) {
    return std::any_of(few.begin(), few.end(), [&](const PlotPoint& point) { return point.x == x; });
  };
  CHECK((holds(0) && holds(54'321) && holds(54'322) && holds(70'000) && holds(99'999)));
  CHECK(std::is_sorted(few.begin(), few.end(), [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; }));
  CHECK(thinned(few, 0, 100'000, 400'000).size() == few.size());
}

TEST_CASE("numbers at the ends of what a record can hold are drawn, too") {
  constexpr double most = std::numeric_limits<double>::max();
  std::vector<RunRecord> records = {recorded_run("{}", {most, -most, 1, most}, 1e12)};
  for (std::size_t i = 0; i < 4; ++i) {
    RecordedStep& step = records[0].steps[i];
    step.step = std::numeric_limits<std::int64_t>::max() - 3 + static_cast<std::int64_t>(i);
    step.epoch = std::numeric_limits<std::int64_t>::max();
    step.learning_rate = i % 2 == 0 ? most : std::numeric_limits<double>::denorm_min();
    step.samples_per_second = -most;
    step.memory.peak_reserved = std::numeric_limits<std::int64_t>::max();
  }
  records[0].evaluations = {recorded_evaluation(std::numeric_limits<std::int64_t>::max(), most, -most)};
  for (const RunAxis axis : {RunAxis::step, RunAxis::time, RunAxis::epoch}) {
    for (const bool logarithmic : {false, true}) {
      const CurvePicture picture = run_picture(
          records, {.of = {"loss", "lr", "memory", "speed", "accuracy"}, .axis = axis, .logarithmic = logarithmic});
      check_widths(picture_text(picture, {.color = false, .width = 80}), 80);
      const std::string svg = picture_svg(picture);
      CHECK(xml_mistake(svg) == "");
      CHECK_THAT(svg, !Contains("nan") && !Contains("\"inf"));
    }
  }
}

TEST_CASE("runs without steps, and metrics that nobody tells, are errors") {
  const std::vector<RunRecord> empty = {recorded_run("{}", {})};
  CHECK_THAT(refusal_of<DataError>([&] { run_picture(empty, {}); }), Contains("has no step to plot"));
  const std::vector<RunRecord> records = {recorded_run("{}", {2, 1})};
  CHECK_THAT(refusal_of<DataError>([&] { run_picture(records, {.of = {"dice"}}); }), Contains("--of dice"));
  std::vector<RunRecord> second_is_wrong = {records[0], records[0]};
  second_is_wrong[1].path = "runs/b/events.jsonl";
  second_is_wrong[1].stages.push_back({{"stage", "all"}, {"first_step", "one"}});
  CHECK_THAT(refusal_of<DataError>([&] { run_picture(second_is_wrong, {}); }),
             Catch::StartsWith("runs/b/events.jsonl: event 'stage': "));
}

TEST_CASE("a curve on a terminal falls from the upper left to the lower right, between round numbers") {
  CurvePicture picture{.title = "falling", .x_title = "step", .x_end = 10};
  CurvePanel panel{.title = "loss", .axis = linear_axis(0, 4)};
  panel.curves.push_back({.letter = "t", .points = {{0, 4}, {10, 0}}});
  panel.levels.push_back({"capacity", "c", 4});
  picture.panels.push_back(panel);
  picture.x_ticks = {{0, "0"}, {1, "10"}};
  const std::string text = picture_text(picture, {.color = false, .width = 60});
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  REQUIRE(lines.size() == 14);  // the title, a blank line, the panel's, nine rows, the axis and its numbers
  CHECK_THAT(lines[3], Contains("4 ┤") && Catch::EndsWith(" c"));
  CHECK_THAT(lines[11], Contains("0 ┤") && Catch::EndsWith(" t"));
  // Each row of dots begins further to the right than the one above.
  for (std::size_t row = 5; row <= 11; ++row) {
    const auto first_dot = [&](const std::string& line) {
      return display_width(line.substr(0, line.find("\xE2\xA0")));
    };
    CHECK(first_dot(lines[row]) >= first_dot(lines[row - 1]));
  }
  CHECK_THAT(lines[13], Contains("step") && Contains("10"));
}
