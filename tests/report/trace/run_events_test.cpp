#include "engine/report/trace/run_events.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace trainer {

namespace {

RecordedStep timed_step(std::int64_t number, std::int32_t stage, double seconds) {
  RecordedStep step;
  step.step = number;
  step.epoch = 1;
  step.stage = stage;
  step.loss = 0.5;
  step.seconds = seconds;
  return step;
}

RecordedEvaluation timed_evaluation(std::int64_t step, double seconds) {
  RecordedEvaluation evaluation;
  evaluation.step = step;
  evaluation.epoch = step > 0 ? 1 : 0;
  evaluation.seconds = seconds;
  return evaluation;
}

nlohmann::json events_of_run(const RunRecord& run) {
  std::string text;
  TraceEventWriter events([&](std::string_view bytes) { text += bytes; });
  write_run_events(run, RunTimes(run), 1, events);
  events.finish({});
  return nlohmann::json::parse(text)["traceEvents"];
}

}  // namespace

TEST_CASE("Steps and evaluations of a run stand one behind the other") {
  RunRecord run;
  run.stage_names = {"head", "body"};
  run.steps = {timed_step(1, 0, 0.25), timed_step(2, 0, 0.5), timed_step(3, 1, 1)};
  run.evaluations = {timed_evaluation(0, 0.125), timed_evaluation(2, 0.0625)};
  const RunTimes times(run);
  CHECK(times.evaluation(0).begin == 0);
  CHECK(times.step(0).begin == 125'000'000);
  CHECK(times.step(1).end == 875'000'000);
  CHECK(times.evaluation(1).begin == 875'000'000);
  CHECK(times.step(2).begin == 937'500'000);
  CHECK(times.whole() == 1'937'500'000);
  CHECK(times.behind_step(run, 2) == 875'000'000);
  CHECK(times.behind_step(run, 0) == 0);
  // The first step of the second stage is the run's third.
  CHECK(times.find(run, "body", 1, false)->begin == 937'500'000);
  CHECK(times.find(run, "", 3, false)->begin == 937'500'000);
  CHECK(times.find(run, "", 2, true)->begin == 875'000'000);
  CHECK_FALSE(times.find(run, "body", 2, false));
  CHECK_FALSE(times.find(run, "tail", 1, false));
}

TEST_CASE("Times that no run can have do not leave what numbers hold") {
  RunRecord run;
  run.stage_names = {"train"};
  for (int i = 1; i <= 5; ++i) run.steps.push_back(timed_step(i, 0, 1e300));
  run.steps.push_back(timed_step(6, 0, std::numeric_limits<double>::infinity()));
  const RunTimes times(run);
  for (std::size_t i = 0; i < run.steps.size(); ++i) CHECK(times.step(i).end >= times.step(i).begin);
  CHECK(times.whole() > 0);
}

TEST_CASE("What a run told stands in its trace as text, and numbers that are none are left out") {
  RunRecord run;
  run.name = "a\"<b>\n\x1b";
  run.stage_names = {"train"};
  run.steps = {timed_step(1, 0, 1)};
  run.steps[0].loss = std::numeric_limits<double>::quiet_NaN();
  run.steps[0].data_seconds = 7;
  run.warnings = {{1, "a \"warning\"\x07\xff"}};
  run.out_of_memory = Json{{"event", "oom"}, {"step", 1}, {"layer", "</script>"}, {"top", Json::array({1})}};
  const nlohmann::json events = events_of_run(run);
  bool is_named = false, is_warned = false, is_told = false;
  for (const nlohmann::json& event : events) {
    if (event["name"] == "process_name") is_named = event["args"]["name"].get<std::string>().find(run.name) == 7;
    if (event["name"] == "warning") is_warned = event["args"]["message"] == "a \"warning\"\x07\xef\xbf\xbd";
    if (event["name"] == "out of memory")
      is_told = event["args"] == nlohmann::json{{"step", 1}, {"layer", "</script>"}};
    if (event["ph"] == "C") CHECK(event["name"] != "loss");
    if (event["name"] == "waiting for data") CHECK(event["dur"] == 1e6);  // no more than its step
  }
  CHECK(is_named);
  CHECK(is_warned);
  CHECK(is_told);
}

}  // namespace trainer
