#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ProcessResult run_sweep_in(const ScratchFolder& folder, const Words& words, const ProcessOptions& options = {}) {
  Words all = {"sweep"};
  all.insert(all.end(), words.begin(), words.end());
  all.push_back("output=" + (folder / "sweep"));
  return run_trainer(all, options);
}

json lines_of(const ProcessResult& result, const std::string& event) {
  json lines = json::array();
  for (const json& line : events_named(events_of(result.out), event)) lines.push_back(line);
  return lines;
}

Words statuses(const json& points) {
  Words all;
  for (const json& point : points) all.push_back(point["status"]);
  return all;
}

/// Processes, other than `except`, that have the text among their arguments.
std::vector<pid_t> processes_with(const std::string& text, pid_t except) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t id = std::atoi(entry.path().filename().c_str());
    if (id > 0 && id != except && file_text(entry.path() / "cmdline").find(text) != std::string::npos)
      found.push_back(id);
  }
  return found;
}

/// Waits, up to ten seconds, for a point's first step.
void wait_for_step(const std::string& point_folder) {
  for (int i = 0; i < 1000; ++i) {
    if (file_text(point_folder + "/events.jsonl").find("\"event\":\"start\"") != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Waits, up to ten seconds, for the process of a point; -1: there is none.
pid_t process_of_point(const std::string& point_folder, pid_t sweep) {
  for (int i = 0; i < 1000; ++i) {
    const std::vector<pid_t> found = processes_with(point_folder, sweep);
    if (!found.empty()) return found.front();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

/// Acts once, when the point that never ends by itself runs. Where it does not run the sweep is killed: -1 would be
/// every process to kill().
ProcessOptions when_endless_runs(const ScratchFolder& folder,
                                 const std::function<void(pid_t sweep, pid_t point)>& act) {
  ProcessOptions options;
  options.on_output = [&folder, act, acted = false](pid_t sweep, const std::string& out) mutable {
    if (acted || out.find("\"event\":\"sweep\"") == std::string::npos) return;
    if (out.find("\"point\":\"steps=2\"") == std::string::npos) return;
    acted = true;
    const std::string endless = folder / "sweep/steps=900000";
    const pid_t point = process_of_point(endless, sweep);
    wait_for_step(endless);
    if (point > 0)
      act(sweep, point);
    else
      kill(sweep, SIGKILL);
  };
  return options;
}

/// 2 steps, then more than anybody waits for.
const Words endless = {"tests/runs/digits_mlp.yaml", "train.steps=2,900000", "train.epochs=1000000", "--json"};

}  // namespace

TEST_CASE("each point of a sweep is a run, and one that runs out of memory is a row like any other") {
  ScratchFolder folder;
  const std::string limited = "configs/quickstart.yaml";
  const ProcessResult result =
      run_sweep_in(folder, {limited, "train.batch_size=1,31,1024", "train.steps=2", "memory.limit=24MiB", "--json"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const json points = lines_of(result, "point");
  REQUIRE(statuses(points) == Words{"done", "done", "oom"});
  CHECK(lines_of(result, "sweep")[0]["keys"] == json{"train.batch_size"});
  CHECK(lines_of(result, "end")[0]["run"] == 3);
  CHECK(points[2]["exit_code"] == 3);
  CHECK(points[2]["peak_reserved"].is_null());
  CHECK(points[2]["capacity"] == 24 << 20);

  // What the run says of itself when nobody sweeps.
  const ProcessResult alone =
      run_trainer({"run", limited, "train.batch_size=31", "train.steps=2", "--json", "output=" + (folder / "alone")});
  const json end = events_of(alone.out).back();
  for (const char* key : {"peak_requested", "peak_allocated", "peak_reserved", "steps"})
    CHECK(points[1][key] == end[key]);
  CHECK(points[1]["train_loss"] == events_named(events_of(alone.out), "step").back()["loss"]);

  // The files hold the same, and the checkpoints are gone.
  const std::string log = file_text(folder / "sweep/sweep.jsonl");
  CHECK(log == result.out.substr(0, result.out.find("{\"event\":\"end\"")));
  std::istringstream csv(file_text(folder / "sweep/sweep.csv"));
  Words rows;
  for (std::string line; std::getline(csv, line);) rows.push_back(line);
  REQUIRE(rows.size() == 4);
  CHECK_THAT(rows[0], Catch::StartsWith("point,train.batch_size,status,"));
  CHECK_THAT(rows[2], Catch::StartsWith("batch_size=31,31,done,0,0,25165824,") &&
                          Contains("," + std::to_string(end["peak_reserved"].get<std::int64_t>()) + ","));
  CHECK_THAT(file_text(folder / "sweep/sweep.svg"),
             Contains("batch_size=1024: oom") && Contains("batch_size=31: done"));
  CHECK(std::filesystem::exists(folder / "sweep/batch_size=31/events.jsonl"));
  CHECK_FALSE(std::filesystem::exists(folder / "sweep/batch_size=31/checkpoints"));

  // Again, with a value more: nothing is run twice.
  const ProcessResult more =
      run_sweep_in(folder, {limited, "train.batch_size=2,31,1024", "train.steps=2", "memory.limit=24MiB", "--json"});
  CHECK(more.exit_code == 0);
  const json again = lines_of(more, "point");
  REQUIRE(again.size() == 3);
  CHECK_FALSE(again[0].contains("kept"));
  CHECK(again[1]["kept"] == true);
  CHECK(again[1]["seconds"] == points[1]["seconds"]);
  CHECK(lines_of(more, "end")[0]["kept"] == 2);
  CHECK_THAT(file_text(folder / "sweep/sweep.csv"), Contains("batch_size=1,") && Contains("batch_size=2,"));
  CHECK(file_text(folder / "sweep/sweep.jsonl").substr(0, log.size()) == log);

  // Another experiment in its place, or another key, is refused, unless it is meant.
  const Words other = {limited, "train.batch_size=1,2", "train.steps=1", "memory.limit=24MiB", "--json"};
  const ProcessResult refused = run_sweep_in(folder, other);
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("holds another sweep: train.steps (was 2, is 1)") && Contains("--overwrite"));
  CHECK_THAT(run_sweep_in(folder, {limited, "seed=1,2", "train.steps=2"}).err, Contains("it sweeps train.batch_size"));
  CHECK_THAT(run_sweep_in(folder, {limited, "train.batch_size=1,2", "--plan-only"}).err,
             Contains("its points were run"));
  Words meant = other;
  meant.emplace_back("--overwrite");
  CHECK(run_sweep_in(folder, meant).exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "sweep/batch_size=31"));
}

TEST_CASE("a sweep that is killed takes its point with it, and goes on with what is missing") {
  ScratchFolder folder;
  pid_t point = -1;
  const ProcessResult killed = run_sweep_in(folder, endless, when_endless_runs(folder, [&](pid_t sweep, pid_t child) {
                                              point = child;
                                              kill(sweep, SIGKILL);
                                            }));
  CHECK(killed.exit_code == -SIGKILL);
  REQUIRE(point > 0);
  for (int i = 0; i < 500 && !processes_with(folder.path(), 0).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(processes_with(folder.path(), 0).empty());
  // As if it had been killed while it wrote a line.
  std::ofstream(folder / "sweep/sweep.jsonl", std::ios::app) << R"({"event":"point","po)";

  // Ctrl-C ends the point that runs and keeps the rows.
  const ProcessResult interrupted =
      run_sweep_in(folder, endless, when_endless_runs(folder, [](pid_t sweep, pid_t) { kill(sweep, SIGINT); }));
  INFO(interrupted.err);
  CHECK(interrupted.exit_code == 75);
  CHECK_THAT(interrupted.err, Contains("the same command goes on"));
  const json points = lines_of(interrupted, "point");
  REQUIRE(points.size() == 1);
  CHECK(points[0]["kept"] == true);
  CHECK(lines_of(interrupted, "end")[0]["status"] == "interrupted");
  CHECK(processes_with(folder.path(), 0).empty());
  const std::string csv = file_text(folder / "sweep/sweep.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 2);
  // The header, both points begun, and one of them ended.
  CHECK(events_of(file_text(folder / "sweep/sweep.jsonl")).size() == 4);
}

TEST_CASE("a point that crashes or fails costs one row, and what failed is run again") {
  ScratchFolder folder;
  Words words = endless;
  words[1] = "train.steps=2,900000,3";
  const ProcessResult crashed =
      run_sweep_in(folder, words, when_endless_runs(folder, [](pid_t, pid_t point) { kill(point, SIGSEGV); }));
  CHECK(crashed.exit_code == 1);
  CHECK_THAT(crashed.err, Contains("steps=900000: ended by signal 11"));
  const json points = lines_of(crashed, "point");
  REQUIRE(statuses(points) == Words{"done", "crashed", "done"});
  CHECK(points[1]["signal"] == 11);
  CHECK_THAT(file_text(folder / "sweep/sweep.csv"), Contains("steps=900000,900000,crashed,"));

  const ProcessResult again =
      run_sweep_in(folder, words, when_endless_runs(folder, [](pid_t, pid_t point) { kill(point, SIGKILL); }));
  const json points_again = lines_of(again, "point");
  REQUIRE(statuses(points_again) == Words{"done", "crashed", "done"});
  CHECK(points_again[0].contains("kept"));
  CHECK_FALSE(points_again[1].contains("kept"));
  CHECK(points_again[1]["signal"] == 9);
  CHECK(lines_of(again, "end")[0]["run"] == 1);

  ScratchFolder other;
  const Words pooled = {"tests/runs/digits_cnn.yaml", "train.steps=1", "seed=1,2", "data.root=/nowhere",
                        "data.type=idx"};
  const ProcessResult failed = run_sweep_in(other, pooled);
  CHECK(failed.exit_code == 6);
  CHECK_THAT(failed.out, Contains("failed"));
  CHECK_THAT(failed.err, Contains("/nowhere") && Contains("seed=1: ") && !Contains("seed=2: "));
  CHECK_THAT(run_sweep_in(other, pooled).out, !Contains("kept"));
}

TEST_CASE("a sweep is refused before its first run where any of its points is mistaken") {
  ScratchFolder folder;
  const std::string config = "tests/runs/digits_mlp.yaml";
  const std::vector<std::pair<Words, std::string>> mistakes = {
      {{config, "train.batch_size=16,0"}, "argument 'train.batch_size=0': error:"},
      {{config, "train.batch_sise=16,32"}, "did you mean 'train.batch_size'?"},
      {{config, "train.batch_size=16"}, "nothing is swept"},
      {{config, "train.batch_size=16..4:*2"}, "ends below its beginning"},
      {{config, "train.batch_size=1,2", "--gpu", "t4"}, "--plan-only"},
      {{config, "train.batch_size=1,2", "--stop-on", "never"}, "'never' is not 'oom'"},
      {{config, "memory.limit=40MiB,1GiB", "--stop-on", "oom"}, "a larger memory.limit fits more"},
      {{config, "train.batch_size=8,all", "--stop-on", "oom"}, "not all of train.batch_size are numbers"},
      {{config, "memory.allocator=caching,planned", "seed=1,2", "--stop-on", "oom"}, "not all of memory.allocator"},
      {{config, "train.batch_size=1,2", "--plan-only", "--gpu", "t5"}, "unknown GPU profile 't5'"},
  };
  for (const auto& [words, message] : mistakes) {
    const ProcessResult result = run_sweep_in(folder, words);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(message));
  }
  std::filesystem::create_directory(folder / "sweep");
  std::ofstream(folder / "sweep/config.yaml") << "name: x\n";
  std::filesystem::remove(folder / "sweep/sweep.jsonl");
  const ProcessResult over_run = run_sweep_in(folder, {config, "seed=1,2", "--overwrite"});
  CHECK(over_run.exit_code == 6);
  CHECK_THAT(over_run.err, Contains("holds a run"));
}

TEST_CASE("a sweep leaves runs alone that are not its own") {
  ScratchFolder folder;
  const std::string config = "tests/runs/digits_mlp.yaml";
  const std::string own = folder / "sweep/batch_size=10";
  REQUIRE(run_trainer({"run", config, "train.steps=1", "output=" + own, "-q"}).exit_code == 0);
  const std::string latest = own + "/checkpoints/step-00000001/model.safetensors";
  const std::string weights = file_text(latest), events = file_text(own + "/events.jsonl");
  REQUIRE(!weights.empty());
  const auto sweep = [&](Words more) {
    more.insert(more.begin(), {config, "train.batch_size=9,10", "train.steps=1"});
    return run_sweep_in(folder, more);
  };
  for (const Words& flags : {Words{}, Words{"--overwrite"}, Words{}}) {
    const ProcessResult refused = sweep(flags);
    CHECK(refused.exit_code == 6);
    CHECK_THAT(refused.err, Contains(own + " holds a run that this sweep did not begin") && Contains("output=FOLDER"));
    CHECK_FALSE(std::filesystem::exists(folder / "sweep/batch_size=9"));  // before anything was run
  }
  // Plans need no folders, and anew means without the plans.
  CHECK(sweep({"--plan-only", "--capacity", "1GiB", "--overwrite"}).exit_code == 0);
  CHECK(sweep({"--overwrite"}).exit_code == 6);
  CHECK(file_text(latest) == weights);
  CHECK(file_text(own + "/events.jsonl") == events);
  std::filesystem::rename(own, folder / "elsewhere");
  CHECK(sweep({}).exit_code == 0);
  CHECK(sweep({"--overwrite"}).exit_code == 0);
}

TEST_CASE("a sweep replaces no file that it did not write") {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "sweep");
  const std::string log = folder / "sweep/sweep.jsonl";
  const Words words = {"tests/runs/digits_mlp.yaml", "seed=1,2", "--plan-only", "--gpu", "t4"};
  for (const char* text : {"notes of mine", R"({"event":"sweep")", "{}\n{}"}) {
    std::ofstream(log) << text;
    const ProcessResult refused = run_sweep_in(folder, words);
    CHECK(refused.exit_code == 6);
    CHECK_THAT(refused.err, Contains(log) && Contains("not what a sweep writes") && Contains("--overwrite"));
    CHECK(file_text(log) == text);
  }
  Words meant = words;
  meant.emplace_back("--overwrite");
  CHECK(run_sweep_in(folder, meant).exit_code == 0);
  CHECK(events_of(file_text(log)).size() == 3);
  std::ofstream(log).close();
  CHECK(run_sweep_in(folder, words).exit_code == 0);
}

TEST_CASE("plans are made again where they would be others: device, rates, and memory that is free") {
  ScratchFolder folder;
  const std::string profile = folder / "gpu.yaml";
  const auto write_profile = [&](const std::string& bandwidth) {
    std::ofstream(profile) << "{name: X, compute_capability: 8.9, multiprocessors: 128, peak: {fp32: 82, tf32: 82, "
                              "fp16: 165}, memory: {total: 24GiB, usable: 23.5GiB, bandwidth: "
                           << bandwidth << "}, outside_allocator: {context: 400MiB, libraries: 90MiB}}\n";
  };
  write_profile("1008GB");
  const Words described = {"tests/runs/digits_mlp.yaml", "seed=1,2", "--plan-only", "--gpu", profile, "--json"};
  CHECK(run_sweep_in(folder, described).exit_code == 0);
  CHECK(lines_of(run_sweep_in(folder, described), "end")[0]["kept"] == 2);
  write_profile("1009GB");
  const ProcessResult faster = run_sweep_in(folder, described);
  CHECK(faster.exit_code == 6);
  CHECK_THAT(faster.err, Contains("holds another sweep: rates (were profile, "));

  // As if more, or less, had been free then than now.
  const Words here = {"tests/runs/digits_mlp.yaml", "seed=1,2", "--plan-only", "--json", "--overwrite"};
  const ProcessResult planned = run_sweep_in(folder, here);
  REQUIRE(statuses(lines_of(planned, "point")) == Words{"fits", "fits"});
  const std::string log = folder / "sweep/sweep.jsonl";
  std::vector<json> lines = events_of(file_text(log));
  REQUIRE(lines.size() == 3);
  CHECK(!lines[0]["device"].get<std::string>().empty());
  lines[1]["capacity"] = lines[1]["capacity"].get<std::int64_t>() * 2;
  lines[2]["status"] = "does not fit";
  lines[2]["capacity"] = 1000;
  // The header as it is: the order of its keys counts.
  const std::string header = file_text(log).substr(0, file_text(log).find('\n') + 1);
  std::ofstream edited(log);
  edited << header << lines[1].dump() << '\n' << lines[2].dump() << '\n';
  edited.close();
  const ProcessResult again = run_sweep_in(folder, {here.begin(), here.end() - 1});
  INFO(again.err);
  const json points = lines_of(again, "point");
  REQUIRE(statuses(points) == Words{"fits", "fits"});
  CHECK(points[0].contains("kept"));
  CHECK_FALSE(points[1].contains("kept"));
  CHECK(points[1]["capacity"] > 1000);
}

TEST_CASE("--stop-on oom leaves out what is larger, for each combination of the other keys") {
  ScratchFolder folder;
  const ProcessResult result =
      run_sweep_in(folder,
                   {"tests/runs/out_of_memory.yaml", "train.batch_size=1,1024,256,512", "optimizer.type=adam,sgd",
                    "memory.limit=null", "--plan-only", "--capacity", "13MiB", "--stop-on", "oom"},
                   {.terminal_columns = 100});
  INFO(result.out);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("8 points, planned and not run") && Contains("does not fit") &&
                             Contains("Largest train.batch_size of these that fits: ") && Contains("left out"));
  const json lines = events_of(file_text(folder / "sweep/sweep.jsonl"));
  for (const json& line : lines) {
    if (line["event"] != "point" || line["status"] != "fits") continue;
    // Nothing that fits is larger than what does not.
    for (const json& other : lines)
      if (other["event"] == "point" && other["status"] == "does not fit" &&
          other["values"]["optimizer.type"] == line["values"]["optimizer.type"])
        CHECK(line["values"]["train.batch_size"] < other["values"]["train.batch_size"]);
  }
}

TEST_CASE("the deepest network of the challenge that a sweep plans to fit is the one that fit finds") {
  ScratchFolder folder;
  const std::string config = "configs/challenges/deep_network.yaml";
  const std::string depth = "model.layers.3.repeat.times";
  for (const Words& target : {Words{"--capacity", "2GiB"}, Words{"--gpu", "rtx3060-12gb", "--capacity", "3GiB"}}) {
    Words words = {config, depth + "=1..12:+1", "--plan-only", "--overwrite", "--json"};
    words.insert(words.end(), target.begin(), target.end());
    const ProcessResult result = run_sweep_in(folder, words);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    std::int64_t deepest = 0;
    for (const json& point : lines_of(result, "point")) {
      CHECK(point["step_seconds"] > 0);
      CHECK((point["peak_reserved"] <= point["capacity"]) == (point["status"] == "fits"));
      if (point["status"] == "fits") deepest = std::max<std::int64_t>(deepest, point["values"][depth]);
    }
    CHECK(deepest > 1);
    CHECK(deepest < 12);
    Words fit = {"fit", config, "--max", depth, "--json"};
    fit.insert(fit.end(), target.begin(), target.end());
    const ProcessResult found = run_trainer(fit);
    INFO(found.err);
    CHECK(events_of(found.out).front()["maximum"]["value"] == deepest);
  }
}

TEST_CASE("the whole training set is one batch, planned in full size and run in small") {
  ScratchFolder folder;
  const std::string config = "configs/challenges/whole_training_set.yaml";
  const ProcessResult planned =
      run_sweep_in(folder, {config, "train.batch_size=30000,60000,all", "--plan-only", "--capacity", "8GiB", "--json"});
  INFO(planned.err);
  const json points = lines_of(planned, "point");
  REQUIRE(statuses(points) == Words{"fits", "fits", "fits"});
  CHECK(points[1]["peak_allocated"] == points[2]["peak_allocated"]);
  CHECK(points[0]["peak_allocated"] < points[1]["peak_allocated"]);
  // The hidden layer's activations alone.
  CHECK(points[1]["peak_requested"] > std::int64_t{60000} * 2000 * 4);

  ScratchFolder small;
  const ProcessResult trained = run_sweep_in(
      small, {config, "data={type: synthetic, shape: [28, 28, 1], classes: 10, samples: 97}", "train.epochs=2",
              "train.batch_size=all,31", "model.layers.1.linear.out=64,2000", "--json", "memory.limit=40MiB"});
  INFO(trained.err);
  CHECK(trained.exit_code == 0);
  const json runs = lines_of(trained, "point");
  REQUIRE(statuses(runs) == Words{"done", "done", "done", "done"});
  CHECK(runs[0]["steps"] == 2);
  CHECK(runs[2]["steps"] == 8);  // ⌈97 / 31⌉ a epoch
}
