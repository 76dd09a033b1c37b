#include <fmt/format.h>
#include <zlib.h>
#include <catch2/catch.hpp>

#include <functional>
#include <nlohmann/json.hpp>

#include "engine/train/files/run_directory.h"
#include "tests/refusal.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Contains;
using nlohmann::json;

namespace {

std::string checksum(const std::string& text) {
  return fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

/// As who wants to be believed changes it: the checksum is that of what is said.
void write_state(const std::string& path, json state) {
  state.erase("crc32");
  state["crc32"] = checksum(state.dump());
  write_bytes(path, state.dump());
}

/// What a run that resumes from the changed checkpoint says.
std::string refusal_on_resuming(const std::string& output, const std::vector<std::string>& overrides) {
  TestRun run(small_experiment, output, overrides);
  run.options.resume = true;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  return refusal_of<DataError>([&] { run(*device); });
}

}  // namespace

TEST_CASE("A state whose values no run has is refused by file and key, whatever its checksum says") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  const std::vector<std::string> overrides = {"train.steps=6", "schedule=constant", "train.eval_every=3",
                                              "checkpoint.best=accuracy"};
  TestRun first(small_experiment, output, overrides);
  REQUIRE(first(*make_cpu_device(1)) == RunStatus::done);
  const std::string path = RunDirectory(output).checkpoint_path(6) + "/state.json";
  const json whole = json::parse(file_bytes(path));

  struct Change {
    const char* key;
    json value;
  };
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const Change changes[] = {
      {"step", -1},
      {"step", -2},
      {"step", -1000},
      {"step", largest},
      {"step", 1000000},
      {"step", 1.5},
      {"step", "6"},
      {"step", 18446744073709551615U},
      {"step", 5},
      {"pass", -1},
      {"pass", 1},
      {"samples", largest},
      {"samples", 7},
      {"num_samples", -44},
      {"evaluated", 1},
      {"best.value", "0.5"},
      {"best.value", 1.5},
      {"best.value", -1e-6},
      {"early_stopping.value", -0.5},
      {"best.step", -3},
      {"best.step", 7},
      {"early_stopping.value", json::array()},
      {"early_stopping.evaluations_without_improvement", -1},
      {"early_stopping.evaluations_without_improvement", largest},
      {"data.train_crc32", -1},
      {"data.train_crc32", 4294967296},
      {"device", 5},
      {"config", json::array()},
      {"files.model.safetensors", 5},
  };
  for (const Change& change : changes) {
    json state = whole;
    json* place = &state;
    std::string rest = change.key;
    const bool is_file = rest.starts_with("files.");
    for (std::size_t dot = 0; (dot = rest.find('.')) != std::string::npos; rest = rest.substr(dot + 1)) {
      place = &(*place)[rest.substr(0, dot)];
      if (is_file) {
        rest = rest.substr(dot + 1);
        break;
      }
    }
    (*place)[rest] = change.value;
    write_state(path, state);
    INFO(change.key << " = " << change.value);
    const bool disagrees = change.value == 5 && std::string(change.key) == "step";
    const std::string named = disagrees ? "'pass'" : fmt::format("'{}", change.key);
    CHECK_THAT(refusal_on_resuming(output, overrides),
               Contains("step-00000006") && Contains("state.json: ") && Contains(named));
  }
  json state = whole;
  state.erase("samples");
  write_state(path, state);
  CHECK_THAT(refusal_on_resuming(output, overrides), Contains("state.json: 'samples' is missing"));
  write_state(path, whole);
  CHECK(refusal_on_resuming(output, overrides) == "it was taken");
}

TEST_CASE("A loss below 0 is refused, but for what f32 rounds") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  const std::vector<std::string> overrides = {"train.steps=6", "schedule=constant", "train.eval_every=3"};
  TestRun first(small_experiment, output, overrides);
  REQUIRE(first(*make_cpu_device(1)) == RunStatus::done);
  const std::string path = RunDirectory(output).checkpoint_path(6) + "/state.json";
  for (const char* key : {"best", "early_stopping"}) {
    json state = json::parse(file_bytes(path));
    for (const double loss : {-1e-3, -0.5, -1e300}) {
      state[key]["value"] = loss;
      write_state(path, state);
      CHECK_THAT(refusal_on_resuming(output, overrides),
                 Contains(fmt::format("'{}.value' is ", key)) && Contains("which is no loss"));
    }
    for (const double loss : {-1e-7, 0.0, 1e300}) {
      state[key]["value"] = loss;
      write_state(path, state);
      CHECK(refusal_on_resuming(output, overrides) == "it was taken");
    }
  }
}

TEST_CASE("Overrides that no run is adapted to are refused") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  const std::vector<std::string> overrides = {"train.steps=6", "schedule=constant"};
  TestRun first(small_experiment, output, overrides);
  REQUIRE(first(*make_cpu_device(1)) == RunStatus::done);
  const std::string path = RunDirectory(output).checkpoint_path(6) + "/state.json";
  json state = json::parse(file_bytes(path));
  state["adapted"]["given"] = state["config"];
  state["config"]["train"]["batch_size"] = 2;
  for (const char* text : {"output=elsewhere", "train.steps=9", "train.batch_size", "train.batch_size=2",
                           "train.batch_size=auto", "train.batch_size=x"}) {
    state["adapted"]["set"] = {text};
    write_state(path, state);
    INFO(text);
    CHECK_THAT(refusal_on_resuming(output, overrides), Contains("state.json: 'adapted.set'"));
  }
  state["adapted"]["set"] = {5};
  write_state(path, state);
  CHECK_THAT(refusal_on_resuming(output, overrides), Contains("'adapted.set.0' is 5"));
}

TEST_CASE("A state that is nested without end is no state") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=1", "schedule=constant"});
  REQUIRE(first(*make_cpu_device(1)) == RunStatus::done);
  const std::string path = RunDirectory(output).checkpoint_path(1) + "/state.json";
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  write_bytes(path, R"({"format": "trainer-checkpoint", "format_version": 1, "crc32": "", "config": )" + deep + "}");
  CHECK_THAT(refusal_on_resuming(output, {"train.steps=1", "schedule=constant"}),
             Contains("state.json is not a JSON object"));
}

TEST_CASE("A loss scale that no run has is refused") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  const std::vector<std::string> overrides = {"train.steps=2", "schedule=constant", "train.amp=fp16"};
  TestRun first(small_experiment, output, overrides);
  REQUIRE(first(*make_cpu_device(1)) == RunStatus::done);
  const std::string checkpoint = RunDirectory(output).checkpoint_path(2);
  std::string bytes = file_bytes(checkpoint + "/optimizer.safetensors");
  const double factor = -1;
  // The scale is the last tensor, and its factor the first of three numbers.
  bytes.replace(bytes.size() - 3 * sizeof(double), sizeof(double), reinterpret_cast<const char*>(&factor),
                sizeof(double));
  write_bytes(checkpoint + "/optimizer.safetensors", bytes);
  json state = json::parse(file_bytes(checkpoint + "/state.json"));
  state["files"]["optimizer.safetensors"]["crc32"] = checksum(bytes);
  write_state(checkpoint + "/state.json", state);
  CHECK_THAT(refusal_on_resuming(output, overrides), Contains("optimizer.safetensors") && Contains("factor -1"));
}
