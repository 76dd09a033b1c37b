#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/process.h"

using namespace trainer;
using nlohmann::json;

namespace {

std::vector<std::string> long_run(const ScratchFolder& folder, std::vector<std::string> more) {
  std::vector<std::string> words = {"run", "tests/runs/digits_mlp.yaml", "train.epochs=100000", "--json",
                                    "output=" + (folder / "run")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Sends the signals, one at each further step, once ten steps are done.
ProcessOptions interrupted_by(std::vector<int> signals) {
  ProcessOptions options;
  options.on_output = [signals, sent = std::size_t{0}](pid_t process, const std::string& out) mutable {
    if (sent >= signals.size() || out.find("\"step\":10,") == std::string::npos) return;
    kill(process, signals[sent++]);
  };
  return options;
}

}  // namespace

TEST_CASE("the first interrupt finishes the step, saves and exits with 75, and the run can go on") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) {
    ScratchFolder folder;
    const ProcessResult result = run_trainer(long_run(folder, {}), interrupted_by({signal}));
    INFO(result.err);
    CHECK(result.exit_code == 75);
    CHECK_THAT(result.err, Catch::Contains("Continue with:\n  trainer run tests/runs/digits_mlp.yaml") &&
                               Catch::Contains("--resume"));
    const std::vector<json> events = events_of(result.out);
    CHECK(events.back()["status"] == "interrupted");
    const std::int64_t last_step = events_named(events, "step").back()["step"];
    CHECK(last_step >= 10);
    CHECK(events.back()["steps"] == last_step);

    const ProcessResult resumed =
        run_trainer(long_run(folder, {"--resume", "train.steps=" + std::to_string(last_step + 3)}), {});
    INFO(resumed.err);
    CHECK(resumed.exit_code == 0);
    const std::vector<json> more = events_of(resumed.out);
    CHECK(more.front()["first_step"] == last_step + 1);
    CHECK(events_named(more, "step").size() == 3);
  }
}

TEST_CASE("what comes again by itself, a hang-up or the end of the processor's time, does not end the saving") {
  ScratchFolder folder;
  ProcessOptions options;
  options.on_output = [sent = false](pid_t process, const std::string& out) mutable {
    if (sent || out.find("\"step\":10,") == std::string::npos) return;
    sent = true;
    for (const int signal : {SIGTERM, SIGXCPU, SIGHUP}) kill(process, signal);
  };
  const ProcessResult result = run_trainer(long_run(folder, {}), options);
  CHECK(result.exit_code == 75);
  CHECK(events_of(result.out).back()["status"] == "interrupted");
}

TEST_CASE("signals that are ignored when a run starts, as under nohup, stay ignored") {
  ScratchFolder folder;
  ProcessOptions options = interrupted_by({SIGHUP, SIGINT});
  options.before_start = [] {
    for (const int signal : {SIGHUP, SIGINT}) ::signal(signal, SIG_IGN);
  };
  const ProcessResult result = run_trainer(long_run(folder, {"train.steps=60"}), options);
  CHECK(result.exit_code == 0);
  CHECK(events_of(result.out).back()["steps"] == 60);
}

TEST_CASE("a second interrupt ends the process at once") {
  ScratchFolder folder;
  ProcessOptions options;
  options.on_output = [sent = false](pid_t process, const std::string& out) mutable {
    if (sent || out.find("\"event\":\"start\"") == std::string::npos) return;
    sent = true;
    kill(process, SIGINT);
    // Two at once would arrive as one.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(process, SIGINT);
  };
  // Its first step takes much longer than the signals.
  const ProcessResult result =
      run_trainer({"run", "tests/runs/digits_mlp.yaml", "--json", "output=" + (folder / "run"),
                   "data={type: synthetic, shape: [4000], classes: 10, samples: 4096}", "train.batch_size=4096",
                   "model.layers=[{linear: {out: 4000}}, relu, {linear: {out: 4000}}, relu, {linear: {out: 10}}]"},
                  options);
  CHECK(result.exit_code == 128 + SIGINT);
  CHECK_THAT(result.err, Catch::Contains("once more to stop at once"));
  CHECK(events_named(events_of(result.out), "end").empty());
}

TEST_CASE("a killed run leaves its checkpoints readable and resumes from the newest") {
  ScratchFolder folder;
  const ProcessResult killed = run_trainer(long_run(folder, {"checkpoint.every=3"}), interrupted_by({SIGKILL}));
  CHECK(killed.exit_code == -SIGKILL);
  // The last line may be cut off.
  const std::vector<json> before = events_of(killed.out.substr(0, killed.out.rfind('\n') + 1));
  const std::int64_t last_step = events_named(before, "step").back()["step"];
  const ProcessResult resumed =
      run_trainer(long_run(folder, {"checkpoint.every=3", "--resume", "train.steps=" + std::to_string(last_step + 5)}));
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  const std::vector<json> after = events_of(resumed.out);
  const std::int64_t first_step = after.front()["first_step"];
  CHECK(first_step >= 7);
  CHECK(first_step <= last_step + 1);
  // What was trained twice came out the same.
  for (const json& step : events_named(after, "step")) {
    for (const json& same : events_named(before, "step"))
      if (same["step"] == step["step"]) CHECK(same["loss"] == step["loss"]);
  }
}
