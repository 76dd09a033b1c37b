#include "engine/report/compare/run_comparison.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/errors.h"
#include "tests/refusal.h"
#include "tests/report/live/recorded_folder.h"
#include "tests/report/record/recorded_runs.h"

using namespace trainer;
using Catch::Contains;

namespace {

ComparedRun run_at(const std::string& config, const std::vector<double>& losses, double seconds = 0.5) {
  RunRecord record = recorded_run(config, losses, seconds);
  record.evaluations = {recorded_evaluation(2, 0.5, 0.75), recorded_evaluation(4, 0.625, 0.875)};
  return compared_run(record);
}

/// Of the check of two runs that have but this figure.
bool passes(const std::string& check, const std::string& key, double reference, double value) {
  ComparedRun first{.path = "a"}, second{.path = "b"};
  first.figures[key] = reference;
  second.figures[key] = value;
  return compare_runs({first, second}, {parse_run_check(check)}).passed();
}

std::size_t longest_line(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, display_width(line));
  return most;
}

}  // namespace

TEST_CASE("the figures of a run are without its first step, and the last and best of what evaluations found") {
  const ComparedRun run = run_at("{}", {4, 3, 2, 2.5});
  CHECK(run.figure("speed.samples") == Approx(128));
  CHECK(run.figure("speed.step") == Approx(0.5));
  CHECK(run.figure("speed.data") == Approx(0.1));
  CHECK(run.figure("loss") == 0.625);
  CHECK(run.figure("loss.best") == 0.5);
  CHECK(run.figure("accuracy.best") == 0.875);
  CHECK(run.figure("train_loss") == 2.5);
  CHECK(run.figure("train_loss.best") == 2);
  CHECK(run.figure("memory.reserved") == 10 << 20);
  CHECK(run.figure("memory.steady.allocated") == 8 << 20);
  CHECK(run.status == "unfinished");
  CHECK_FALSE(run.figure("memory.parameter"));
  CHECK_FALSE(run.figure("speed.tokens"));
  // A run of one step has no other.
  CHECK(run_at("{}", {4}).figure("speed.samples") == Approx(12.8));
}

TEST_CASE("the first step of each start is left out, and the steady step is a whole one") {
  RunRecord record = recorded_run("{}", {4, 3, 2, 1});
  record.first_steps = {1, 3};
  record.steps[2].seconds = 100;
  record.steps[3].samples = 10;
  record.steps[3].memory.peak_allocated = 1 << 20;
  const ComparedRun run = compared_run(record);
  CHECK(run.figure("speed.samples") == Approx((64 + 10) / 1.0));
  CHECK(run.figure("memory.steady.allocated") == 8 << 20);
}

TEST_CASE("what a run was adapted to is compared by key, where the last value of each holds") {
  RunRecord adapted = recorded_run(R"({"seed":1})", {4, 3});
  adapted.adaptations = {{{"set", {"train.batch_size=8"}}}, {{"set", {"train.batch_size=4", "train.amp=bf16"}}}};
  RunRecord resumed = adapted;
  resumed.start["adapted"] = {"train.batch_size=4", "train.amp=bf16"};
  resumed.adaptations.clear();
  const ComparedRun first = compared_run(adapted), second = compared_run(resumed);
  CHECK(first.config->at("adapted") == Json::parse(R"({"train.amp":"bf16","train.batch_size":"4"})"));
  CHECK(compare_runs({first, second}, {parse_run_check("config=0")}).passed());
  resumed.adaptations = adapted.adaptations;
  CHECK(compared_run(resumed).config == first.config);
  resumed.adaptations = {{{"set", {"train.batch_size=2"}}}};
  CHECK_FALSE(compare_runs({first, compared_run(resumed)}, {parse_run_check("config=0")}).passed());
}

TEST_CASE("a pipe is refused and not waited for") {
  const FolderOfRuns folder;
  const std::string pipe = folder.of("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(refusal_of<DataError>([&] { read_compared_run(pipe); }), Contains("is no file"));
}

TEST_CASE("figures of any size have a text") {
  CHECK(figure_text(FigureUnit::count, 1e300) == "9,223,372,036,854,775,807");
  CHECK(figure_text(FigureUnit::seconds, 1e300) == "?");
  CHECK_FALSE(figure_text(FigureUnit::bytes, 1e300).starts_with("-"));
}

TEST_CASE("checks fail where a run is worse, and not where it is better") {
  CHECK(passes("memory.reserved=1%", "memory.reserved", 1000, 1010));
  CHECK_FALSE(passes("memory.reserved=1%", "memory.reserved", 1000, 1011));
  CHECK(passes("memory.reserved=0", "memory.reserved", 1000, 1));
  CHECK_FALSE(passes("memory.reserved=exact", "memory.reserved", 1000, 999));
  CHECK(passes("memory.reserved=1KiB", "memory.reserved", 1000, 2024));
  CHECK_FALSE(passes("memory.reserved=1KiB", "memory.reserved", 1000, 2025));
  CHECK(passes("speed=5%", "speed.samples", 100, 95));
  CHECK_FALSE(passes("speed=5%", "speed.samples", 100, 94.9));
  CHECK(passes("speed=5%", "speed.samples", 100, 1000));
  CHECK_FALSE(passes("speed=±5%", "speed.samples", 100, 106));
  CHECK_FALSE(passes("speed=+-5%", "speed.samples", 100, 94));
  CHECK(passes("loss=0.01", "loss", 0.5, 0.51));
  CHECK_FALSE(passes("loss=0.01", "loss", 0.5, 0.52));
  CHECK(passes("loss=0", "loss", 0.5, 0.4));
  CHECK(passes("accuracy=0.005", "accuracy", 0.9, 0.896));
  CHECK_FALSE(passes("accuracy=0.005", "accuracy", 0.9, 0.894));
  CHECK_FALSE(passes("r2=1%", "r2", -1, -1.1));
  CHECK(passes("r2=1%", "r2", -1, 0.5));
  CHECK_FALSE(passes("steps=0", "steps", 10, 9));
  CHECK(passes("steps=1", "steps", 10, 9));
  // Not finite is worse than any number.
  CHECK_FALSE(passes("loss=1000%", "loss", 0.5, NAN));
  CHECK(passes("loss=0", "loss", NAN, 0.5));
  CHECK(passes("loss=exact", "loss", NAN, NAN));
}

TEST_CASE("a check of memory looks at all peaks, and of a configuration at all but names") {
  ComparedRun first = run_at(R"({"seed":1,"name":"a"})", {4, 3}), second = run_at(R"({"seed":1,"name":"b"})", {4, 3});
  second.figures["memory.requested"] += 1;
  const RunComparison comparison =
      compare_runs({first, second}, {parse_run_check("memory=0"), parse_run_check("config=0")});
  REQUIRE(comparison.checks.size() == 4);
  CHECK_FALSE(comparison.checks[0].passed);
  CHECK_THAT(comparison.checks[0].message, Contains("memory.requested of B") && Contains("memory=0"));
  CHECK((comparison.checks[1].passed && comparison.checks[2].passed && comparison.checks[3].passed));
  second.config = Json::parse(R"({"seed":2})");
  const RunComparison other = compare_runs({first, second}, {parse_run_check("config=exact")});
  CHECK_FALSE(other.passed());
  CHECK_THAT(other.checks.front().message, Contains("in seed"));
}

TEST_CASE("checks that are none are refused, and what a run lacks is told") {
  const auto refused = [](const std::string& text) { return refusal_of<ConfigError>([&] { parse_run_check(text); }); };
  CHECK_THAT(refused("memory"), Contains("KEY=TOLERANCE"));
  CHECK_THAT(refused("=1%"), Contains("KEY=TOLERANCE"));
  CHECK_THAT(refused("acuracy=1%"), Contains("did you mean 'accuracy'?"));
  for (const char* wrong :
       {"loss=", "loss=x", "loss=-1", "loss=1%%", "loss=nan", "loss=1MiB", "memory=1 cow", "speed=±"})
    CHECK_THAT(refused(wrong), Contains("is no tolerance"));
  CHECK_THAT(refused("config=1%"), Contains("0 or exact"));
  const ComparedRun run = run_at("{}", {4, 3});
  ComparedRun plan{.path = "plan.json", .is_plan = true};
  const auto lacks = [&](const std::string& check) {
    return refusal_of<DataError>([&] { compare_runs({run, plan}, {parse_run_check(check)}); });
  };
  CHECK_THAT(lacks("loss=1%"), Contains("'plan.json', is a plan"));
  CHECK_THAT(lacks("config=0"), Contains("has no configuration"));
  CHECK_THAT(refusal_of<DataError>([&] {
               compare_runs({run, run}, {parse_run_check("mean_iou=1%")});
             }),
             Contains("has no mean_iou: it ended as 'unfinished' after 2 steps"));
}

TEST_CASE("a comparison is told in tables that no line of is too wide, whatever runs are called") {
  ComparedRun first = run_at(R"({"optimizer":{"lr":0.1},"name":"a"})", {4, 3});
  ComparedRun second = run_at(R"({"optimizer":{"lr":0.2},"name":"b"})", {4, 3}, 0.25);
  second.path = std::string(10'000, 'x') + "\x1b[31m<b>\"";
  second.config->emplace(std::string(10'000, 'k') + "\x1b[2J", std::string(10'000, 'v') + "\n\x07");
  second.device_name = std::string(10'000, 'd');
  second.figures["memory.reserved"] = 12e6;
  for (const std::size_t num_runs : {2, 3, 7, 26}) {
    std::vector<ComparedRun> runs(num_runs, second);
    runs.front() = first;
    const RunComparison comparison = compare_runs(runs, {parse_run_check("memory=1%")});
    for (const int width : {60, 80, 100}) {
      const std::string text = run_comparison_report(comparison, {.color = false, .width = width});
      INFO(text);
      CHECK(longest_line(text) <= static_cast<std::size_t>(width));
      CHECK(text.find_first_of("\x1b\x07") == std::string::npos);
      CHECK_THAT(text, Contains("optimizer.lr") && Contains("+100.0 %") && Contains("✗"));
      CHECK_THAT(text, Contains(run_letter(num_runs - 1) + "  "));
    }
  }
}

TEST_CASE("a comparison as JSON has integers of bytes, null for what is not known, and all checks") {
  const ComparedRun first = run_at(R"({"seed":1})", {4, 3});
  ComparedRun second = run_at(R"({"seed":2})", {4, 3}, 0.25);
  second.figures.erase("accuracy");
  second.figures["loss"] = NAN;
  const auto json =
      nlohmann::json::parse(run_comparison_json(compare_runs({first, second}, {parse_run_check("speed=1%")})));
  CHECK(json["event"] == "comparison");
  CHECK(json["passed"] == true);
  CHECK(json["config"] == nlohmann::json::parse(R"([{"key":"seed","is_name":false,"values":[1,2]}])"));
  const auto figure = [&](const std::string& key) {
    for (const auto& one : json["figures"])
      if (one["key"] == key) return one;
    return nlohmann::json();
  };
  CHECK(figure("memory.reserved")["values"] == nlohmann::json({10 << 20, 10 << 20}));
  CHECK(figure("memory.reserved")["values"][0].is_number_integer());
  CHECK(figure("speed.samples")["relative"][1].get<double>() == Approx(1));
  CHECK(figure("speed.samples")["worse_if"] == "less");
  CHECK(figure("accuracy")["values"][1].is_null());
  CHECK(figure("loss")["values"][1].is_null());
  CHECK(figure("steps")["worse_if"].is_null());
  CHECK(json["checks"][0]["run"] == 1);
}
