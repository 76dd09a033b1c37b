#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "engine/config/load_experiment.h"
#include "engine/report/plan/plan_json.h"
#include "engine/report/run/event_json.h"
#include "engine/report/run/json_lines_sink.h"
#include "tests/report/report_samples.h"

using namespace trainer;
using nlohmann::json;

namespace {

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

void check_has(const json& object, std::initializer_list<const char*> keys) {
  const std::set<std::string> present = keys_of(object);
  for (const char* key : keys) {
    INFO(key);
    CHECK(present.count(key) == 1);
  }
}

std::int64_t sum_of(const json& by_category) {
  std::int64_t sum = 0;
  for (const auto& [name, num_bytes] : by_category.items()) sum += num_bytes.get<std::int64_t>();
  return sum;
}

DeviceMemory sample_memory() { return {{11, 12, 13, 1, 2, 3}, 100, 1000, 4}; }

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the start event carries the resolved configuration and the version") {
  Experiment experiment = parse_experiment(
      "name: digits\ndata: {type: synthetic, shape: [3], classes: 2, samples: 100}\nmodel: {layers: [linear: {out: "
      "2}]}\n"
      "optimizer: sgd\ntrain: {batch_size: auto}\n",
      "test.yaml");
  // As settle_experiment does: what is run is told, not what was asked for.
  experiment.train.batch_size = 32;
  StartEvent start;
  start.experiment = &experiment;
  start.device_kind = "cpu";
  start.device_name = "a \"processor\"";
  start.capacity = 12345;
  start.planned_peak_reserved = 2345;
  start.num_parameters = 99;
  start.trainer_version = "1.2.3";
  start.teller = {.pid = 77, .host = "box", .begin_seconds = 1.5e9};
  CHECK(json::parse(event_json(start))["planned_by_category"].is_null());
  start.planned_by_category = CategoryBytes{5};
  const json event = json::parse(event_json(start));
  CHECK(event["planned_by_category"]["parameter"] == 5);
  CHECK(event["pid"] == 77);
  CHECK(event["host"] == "box");
  CHECK(event["time"] == 1.5e9);
  CHECK(event["event"] == "start");
  CHECK(event["config"]["train"]["batch_size"] == 32);
  CHECK(event["planned_peak_reserved"] == 2345);
  CHECK(event["device"] == json({{"kind", "cpu"}, {"name", "a \"processor\""}, {"capacity", 12345}}));
  CHECK(event["parameters"] == 99);
  CHECK(event["version"] == "1.2.3");
}

TEST_CASE("a step event has every field of the machine interface, bytes as integers") {
  StepEvent step;
  step.step = 7;
  step.epoch = 2;
  step.loss = 0.5;
  step.learning_rate = 0.1;
  step.samples = 64;
  step.seconds = 0.25;
  step.data_seconds = 0.125;
  step.memory = sample_memory();
  const json event = json::parse(event_json(step));
  check_has(event, {"event", "step", "epoch", "stage", "loss", "lr", "samples", "samples_per_second", "step_seconds",
                    "data_seconds", "memory"});
  CHECK(event["data_seconds"] == 0.125);
  CHECK(event["stage"] == "train");
  CHECK(event["samples_per_second"] == 256.0);
  CHECK(event["memory"] == json({{"requested", 1},
                                 {"peak_requested", 11},
                                 {"allocated", 2},
                                 {"peak_allocated", 12},
                                 {"reserved", 3},
                                 {"peak_reserved", 13},
                                 {"device_used", 100},
                                 {"device_total", 1000},
                                 {"alloc_retries", 4}}));
  CHECK(event["memory"]["peak_reserved"].is_number_integer());
}

TEST_CASE("tokens are told of a run on tokens alone, and MFU where it is known") {
  StepEvent step;
  step.samples = 4;
  step.seconds = 0.5;
  CHECK_FALSE(json::parse(event_json(step)).contains("tokens"));
  step.tokens = TokenCount{.trained = 256, .seen = 1024};
  json event = json::parse(event_json(step));
  CHECK(event["tokens"] == 256);
  CHECK(event["tokens_per_second"] == 512.0);
  CHECK(event["tokens_seen"] == 1024);
  CHECK_FALSE(event.contains("mfu"));
  step.tokens->mfu = 0.4375;
  CHECK(json::parse(event_json(step))["mfu"] == 0.4375);

  StartEvent start;
  CHECK_FALSE(json::parse(event_json(start)).contains("tokens_per_sample"));
  start.tokens_per_sample = 64;
  start.flops_per_sample = 1e9;
  event = json::parse(event_json(start));
  CHECK(event["tokens_per_sample"] == 64);
  CHECK(event["flops_per_sample"] == 1e9);
  CHECK(event["peak_flops_per_second"].is_null());

  EndEvent end;
  end.training_seconds = 2;
  CHECK_FALSE(json::parse(event_json(end)).contains("tokens"));
  end.tokens = TokenCount{.trained = 256, .seen = 1024};
  event = json::parse(event_json(end));
  CHECK(event["tokens"] == 256);
  CHECK(event["tokens_per_second"] == 128.0);
  CHECK(event["tokens_seen"] == 1024);
  CHECK(event["mfu"].is_null());
}

TEST_CASE("the longest step event has room for its numbers") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::min();
  constexpr double longest = -1.2345678901234567e-300;
  StepEvent step;
  step.step = step.epoch = step.samples = most;
  step.loss = step.learning_rate = step.seconds = step.data_seconds = longest;
  step.memory = {{most, most, most, most, most, most}, most, most, most};
  step.loss_scale = longest;
  step.terms.count = most_loss_terms;
  step.terms.values.fill(longest);
  step.tokens = TokenCount{.trained = most, .seen = most, .mfu = longest};
  const json event = json::parse(event_json(step));
  CHECK(event["tokens_seen"] == most);
  CHECK(event["loss_scale"] == longest);
}

TEST_CASE("numbers that are not finite become null, and rates of no time are zero") {
  StepEvent step;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  const json event = json::parse(event_json(step));
  CHECK(event["loss"].is_null());
  CHECK(event["samples_per_second"] == 0.0);
}

TEST_CASE("an evaluation without accuracy says null") {
  EvalEvent eval;
  eval.loss = 2;
  eval.memory = sample_memory();
  json event = json::parse(event_json(eval));
  check_has(event, {"event", "step", "epoch", "stage", "loss", "accuracy", "top5", "samples", "memory"});
  CHECK(event["accuracy"].is_null());
  eval.accuracy = 0.75;
  event = json::parse(event_json(eval));
  CHECK(event["accuracy"] == 0.75);
}

TEST_CASE("an out-of-memory event adds up and carries the fixes") {
  const json event = json::parse(event_json(OutOfMemoryEvent{sample_context(), sample_fixes()}));
  check_has(event,
            {"event", "step", "phase", "layer", "op", "requested", "rounded", "capacity", "allocated", "reserved",
             "free", "largest_free_block", "by_category", "by_layer", "top", "fixes", "buffer", "planned"});
  CHECK(event["event"] == "oom");
  CHECK(event["phase"] == "backward");
  CHECK(event["free"] == 8'388'608 - 2'097'152);
  CHECK(sum_of(event["by_category"]) == event["allocated"].get<std::int64_t>());
  CHECK(event["by_category"].size() == num_categories);
  std::int64_t by_layer = 0;
  for (const json& layer : event["by_layer"]) by_layer += layer["bytes"].get<std::int64_t>();
  CHECK(by_layer == event["allocated"].get<std::int64_t>());
  CHECK(event["top"][0] ==
        json({{"name", "0.output"}, {"layer", "0 (linear)"}, {"category", "activation"}, {"bytes", 16'384}}));
  REQUIRE(event["fixes"].size() == 3);
  CHECK(event["fixes"][0]["set"] == json::array({"train.batch_size=16", "train.accumulation_steps=4"}));
  check_has(event["fixes"][0], {"set", "peak_reserved", "fits", "same_result", "relative_step_time"});
  CHECK(event["fixes"][2]["fits"] == false);
  CHECK(event["at_peak"] == false);
}

TEST_CASE("an out-of-memory event of a refused segment adds up to the peak, and nothing is reserved") {
  OutOfMemoryContext context = sample_context();
  context.failure.statistics = {};
  context.refused_peak = 32'768;
  const json event = json::parse(event_json(OutOfMemoryEvent{context, sample_fixes()}));
  CHECK(event["at_peak"] == true);
  CHECK(event["allocated"] == 32'768);
  CHECK(sum_of(event["by_category"]) == 32'768);
  CHECK(event["reserved"] == 0);
  CHECK(event["free"] == event["capacity"]);
}

TEST_CASE("an out-of-memory event lists what lies outside the allocator and every other process") {
  OutOfMemoryEvent failure{sample_context(), {}};
  CHECK(json::parse(event_json(failure))["other_processes"] == json::array());
  failure.outside_allocator = {{"CUDA context", 400}};
  failure.other_processes = {{4711, "python3", 900}, {12, "", 100}};
  failure.device_total = 4000;
  const json event = json::parse(event_json(failure));
  CHECK(event["outside_allocator"]["bytes"] == 400);
  CHECK(event["outside_allocator"]["parts"][0]["name"] == "CUDA context");
  CHECK(event["other_processes"] ==
        json::parse(R"([{"pid": 4711, "name": "python3", "bytes": 900}, {"pid": 12, "name": "", "bytes": 100}])"));
  CHECK(event["device_total"] == 4000);
}

TEST_CASE("the start and the end of a run name what lies outside the allocator") {
  StartEvent start;
  start.outside_allocator = {{"CUDA context", 400}, {"handles", 8}};
  const json outside = json::parse(event_json(start))["outside_allocator"];
  CHECK(outside["bytes"] == 408);
  CHECK(outside["parts"].size() == 2);
  EndEvent end;
  end.outside_allocator = start.outside_allocator;
  CHECK(json::parse(event_json(end))["outside_allocator"] == outside);
}

TEST_CASE("a plan event for a described device names its profile, and says where scratch is only bounded") {
  PlanFindings findings;
  findings.device_kind = "cuda";
  findings.device_name = "NVIDIA H200";
  findings.profile = "configs/gpus/h200.yaml";
  findings.workspace_bound = "The scratch of convolutions is counted with its bound.";
  const json event = json::parse(plan_json(findings));
  CHECK(event["device"] == json({{"kind", "cuda"}, {"name", "NVIDIA H200"}}));
  CHECK(event["profile"] == "configs/gpus/h200.yaml");
  CHECK(event["workspace"] == "bounded");
}

TEST_CASE("a plan event tells the steps, the peak and who holds it; a misfit tells where and what to do") {
  PlanFindings findings;
  findings.experiment_name = "digits";
  findings.capacity = 100;
  findings.outside_allocator = {{"context", 5}, {"handles", 2}};
  findings.plan.steps = {{0, 1, false, {1, 2, 3, 1, 2, 3}}, {1, 5, false, {4, 5, 6, 1, 2, 3}}};
  findings.plan.peak.allocated = 32'768;
  findings.plan.peak.step = 1;
  findings.plan.peak.phase = Phase::backward;
  findings.plan.peak.layer = "0 (linear)";
  findings.plan.peak.op = "linear_backward_weight";
  findings.plan.peak.live = sample_context().live;
  findings.plan.peak.timeline = sample_context().timeline;
  findings.ops = {{.kind = OpKind::linear,
                   .in_half = true,
                   .num_calls = 3,
                   .flops = 20,
                   .input_bytes = 6,
                   .output_bytes = 2,
                   .predicted_seconds = 0.5}};
  json event = json::parse(plan_json(findings));
  CHECK(event["ops"] ==
        json::parse(R"([{"op": "linear", "phase": "forward", "half": true, "statistics": false, "calls": 3.0,
      "flops": 20.0, "input_bytes": 6, "output_bytes": 2, "workspace_bytes": 0, "predicted_seconds": 0.5}])"));
  check_has(event, {"event", "fits", "capacity", "steps", "peak", "by_category", "by_layer", "outside_allocator"});
  CHECK(event["steps"][1]["peak_reserved"] == 6);
  CHECK(event["steps"][1]["count"] == 5);
  CHECK(event["peak"] == json({{"bytes", 32'768},
                               {"step", 1},
                               {"phase", "backward"},
                               {"layer", "0 (linear)"},
                               {"op", "linear_backward_weight"}}));
  CHECK(sum_of(event["by_category"]) == 32'768);
  check_has(event, {"timeline", "peak_uses", "step_seconds", "samples_per_second", "rates", "eval_batch_size"});
  CHECK(event["rates"] == json::parse(R"({"origin": "assumed", "source": null})"));
  CHECK(event["timeline"][1]["layer"].is_null());
  CHECK(event["timeline"][1]["allocated"] == 24'576);
  CHECK(event["timeline"][1]["by_category"].size() == num_categories);
  CHECK(event["outside_allocator"] ==
        json::parse(R"({"bytes": 7, "parts": [{"name": "context", "bytes": 5}, {"name": "handles", "bytes": 2}]})"));
  CHECK(event["workspace"] == "exact");
  CHECK(event["profile"].is_null());
  CHECK(event["fits"] == true);
  CHECK(event.count("failure") == 0);

  findings.unbounded = findings.plan;
  findings.plan.fits = false;
  findings.plan.failure = sample_context();
  findings.fixes = sample_fixes();
  findings.largest_batch.value = 16;
  event = json::parse(plan_json(findings));
  CHECK(event["fits"] == false);
  CHECK(event["failure"]["requested"] == 19'999'000);
  CHECK(event["fixes"].size() == 3);
  CHECK(event["largest_batch_size"] == 16);
}

TEST_CASE("the end event tells the status, the peaks and where the files are") {
  EndEvent end;
  end.status = "done";
  end.steps = 10;
  end.seconds = 2;
  end.training_seconds = 1;
  end.samples = 320;
  end.accuracy = 0.9;
  end.peak_allocated = 5;
  end.output = "runs/a";
  const json event = json::parse(event_json(end));
  check_has(event, {"event", "status", "steps", "seconds", "samples_per_second", "accuracy", "peak_allocated",
                    "peak_reserved", "peak_by_category", "output", "checkpoint"});
  CHECK(event["samples_per_second"] == 320.0);
  CHECK(event.count("error") == 0);
}

TEST_CASE("every line is one line, whatever names hold") {
  CheckpointEvent checkpoint;
  checkpoint.path = "a\nb\xff";
  const std::string line = event_json(checkpoint);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(json::parse(line)["event"] == "checkpoint");
}

TEST_CASE("the event file begins anew with a new run and goes on with a resumed one") {
  const std::string directory =
      (std::filesystem::temp_directory_path() / ("trainer_events_" + std::to_string(std::rand()))).string();
  const auto run = [&](std::int64_t first_step) {
    EventFileSink sink(directory);
    StartEvent start;
    start.first_step = first_step;
    if (first_step > 1) start.resumption = {first_step - 1};
    sink.take(start);
    StepEvent step;
    step.step = first_step;
    sink.take(step);
    sink.take(EndEvent{});
    return sink.path();
  };
  const std::string path = run(1);
  CHECK(lines_of(read_text(path)).size() == 3);
  run(1);
  CHECK(lines_of(read_text(path)).size() == 3);

  // What a killed run leaves behind.
  std::ofstream(path, std::ios::app) << R"({"event":"step","st)";
  run(2);
  const std::vector<std::string> lines = lines_of(read_text(path));
  CHECK(lines.size() == 6);
  for (const std::string& line : lines) CHECK_NOTHROW(json::parse(line));
  CHECK(json::parse(lines[4])["step"] == 2);
  std::filesystem::remove_all(directory);
}

TEST_CASE("an event file that cannot be written is an error of files that names it") {
  EventFileSink sink("/dev/null/run");
  CHECK_THROWS_WITH(sink.take(StartEvent{}), Catch::Contains("/dev/null/run/events.jsonl"));
  CHECK_THROWS_AS(EventFileSink("/dev/null/run").take(StartEvent{}), DataError);
}

TEST_CASE("a closed stream ends the lines and not the run") {
  std::FILE* full = std::fopen("/dev/full", "w");
  REQUIRE(full != nullptr);
  JsonLinesSink sink(full);
  CHECK_NOTHROW(sink.take(StartEvent{}));
  CHECK_NOTHROW(sink.take(StepEvent{}));
  std::fclose(full);
}

TEST_CASE("adaptations and warnings are events, and the end event names them again") {
  AdaptEvent adapt;
  adapt.step = 3;
  adapt.context = sample_context();
  adapt.capacity = 9'000'000;
  adapt.change = sample_fixes().front();
  const json event = json::parse(event_json(adapt));
  CHECK(event["event"] == "adapt");
  CHECK(event["step"] == 3);
  CHECK(event["set"] == json({"train.batch_size=16", "train.accumulation_steps=4"}));
  CHECK(event["capacity_before"] == 9'000'000);
  CHECK(event["capacity"] == 8'388'608);
  CHECK(event["same_result"] == true);
  CHECK(event["numbers"] == "same_rounding");
  check_has(event, {"phase", "layer", "op", "buffer", "planned", "requested", "segment", "reserved", "what",
                    "peak_reserved", "relative_step_time", "step_seconds"});

  const json warning = json::parse(event_json(WarningEvent{5, "a is still allocated", "a", 512}));
  CHECK(
      warning ==
      json({{"event", "warning"}, {"step", 5}, {"message", "a is still allocated"}, {"buffer", "a"}, {"bytes", 512}}));

  EndEvent end;
  end.adaptations = {{3, 100, {"memory.allocator=planned"}, NumbersEffect::same_bits}};
  end.num_warnings = 1;
  end.device_notes = {"a convolution was planned anew"};
  const json last = json::parse(event_json(end));
  CHECK(last["warnings"] == 1);
  CHECK(last["device_notes"] == json::array({"a convolution was planned anew"}));
  CHECK(last["adaptations"] == json::array({{{"step", 3},
                                             {"set", {"memory.allocator=planned"}},
                                             {"capacity", 100},
                                             {"same_result", true},
                                             {"numbers", "same_bits"}}}));
}
