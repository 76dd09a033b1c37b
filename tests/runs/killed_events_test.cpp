#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/runs/traced_process.h"

using namespace trainer;
using nlohmann::json;

namespace {

constexpr std::int64_t num_steps = 8;

std::vector<std::string> run_of(const std::string& output, const std::string& more) {
  std::vector<std::string> words = {"run",
                                    "tests/runs/digits_mlp.yaml",
                                    "--quiet",
                                    fmt::format("train.steps={}", num_steps),
                                    "train.eval_every=3",
                                    "checkpoint.every=2",
                                    "checkpoint.keep=2",
                                    "output=" + output};
  if (!more.empty()) words.push_back(more);
  return words;
}

bool has_checkpoint(const std::string& output) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(output + "/checkpoints", none))
    if (entry.path().filename().string().starts_with("step-")) return true;
  return false;
}

/// What a user does behind a killed run.
std::string way_on(const std::string& output) { return has_checkpoint(output) ? "--resume" : "--overwrite"; }

std::vector<json> events_in(const std::string& output) {
  std::ifstream file(output + "/events.jsonl", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return events_of(text.str());
}

std::vector<std::int64_t> steps_of(const std::vector<json>& events, const std::string& name) {
  std::vector<std::int64_t> steps;
  for (const json& event : events_named(events, name)) steps.push_back(event["step"]);
  return steps;
}

const std::vector<std::int64_t> all_steps = {1, 2, 3, 4, 5, 6, 7, 8};
const std::vector<std::int64_t> all_evaluations = {3, 6, 8};

}  // namespace

TEST_CASE("every step stands once in events.jsonl, at whatever moment the run and its resumption are killed") {
  const ScratchFolder folder;
  const TracedResult whole = run_traced(run_of(folder / "whole", ""));
  if (whole.exit_code == 126) {
    WARN("SKIPPED: this system lets no process be traced");
    return;
  }
  REQUIRE(whole.exit_code == 0);
  REQUIRE(steps_of(events_in(folder / "whole"), "step") == all_steps);
  REQUIRE(steps_of(events_in(folder / "whole"), "eval") == all_evaluations);
  REQUIRE(whole.num_calls > 100);

  // Also where the machine goes, not only the process: events are on the disk before the checkpoint that follows.
  int num_checkpoints = 0;
  bool are_flushed = false;
  for (const std::string& path : whole.flushed) {
    if (path.ends_with("/events.jsonl")) are_flushed = true;
    if (!path.ends_with("/state.json")) continue;
    CHECK(are_flushed);
    are_flushed = false;
    ++num_checkpoints;
  }
  CHECK(num_checkpoints >= 5);

  // A stride that no checkpoint's number of calls divides meets each kind of moment.
  int num_killed = 0;
  for (std::int64_t moment = 1; moment < whole.num_calls; moment += 7) {
    const std::string output = folder / fmt::format("killed-{}", moment);
    const TracedResult first = run_traced(run_of(output, ""), moment);
    const std::string way = way_on(output);
    const TracedResult second = run_traced(run_of(output, way), moment * 5 % 61);
    num_killed += (first.exit_code == -SIGKILL ? 1 : 0) + (second.exit_code == -SIGKILL ? 1 : 0);
    const std::string last_way = way_on(output);
    const TracedResult last = run_traced(run_of(output, last_way));
    INFO("killed at call " << moment << ", went on with " << way << ", killed at " << moment * 5 % 61 << ", with "
                           << last_way);
    REQUIRE(last.exit_code == 0);
    const std::vector<json> events = events_in(output);
    CHECK(steps_of(events, "step") == all_steps);
    CHECK(steps_of(events, "eval") == all_evaluations);
    CHECK(events.back()["event"] == "end");
    std::filesystem::remove_all(output);
  }
  CHECK(num_killed > 40);
}

TEST_CASE("a run taken up at an older checkpoint tells its steps once, also where it is killed before its first one") {
  const ScratchFolder folder;
  const std::string output = folder / "run";
  REQUIRE(run_trainer(run_of(output, "")).exit_code == 0);
  const std::string older = "--resume=" + output + "/checkpoints/step-00000006";
  const TracedResult whole = run_traced({"--version"});
  if (whole.exit_code == 126) {
    WARN("SKIPPED: this system lets no process be traced");
    return;
  }
  // Until the first checkpoint is there, which takes the place of those that were newer.
  for (std::int64_t moment = 0; moment < 40; moment += 3) {
    const std::string copy = folder / fmt::format("killed-{}", moment);
    std::filesystem::copy(output, copy,
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    const std::string older_copy = "--resume=" + copy + "/checkpoints/step-00000006";
    run_traced(run_of(copy, older_copy), moment);
    INFO("killed at call " << moment);
    REQUIRE(run_trainer(run_of(copy, "--resume")).exit_code == 0);
    CHECK(steps_of(events_in(copy), "step") == all_steps);
    CHECK(steps_of(events_in(copy), "eval") == all_evaluations);
    std::filesystem::remove_all(copy);
  }
}

TEST_CASE("a resumption removes what a file of events has of lines cut off and of later steps, and nothing else") {
  const ScratchFolder folder;
  const std::string output = folder / "run";
  REQUIRE(run_trainer(run_of(output, "")).exit_code == 0);
  const std::vector<json> before = events_in(output);
  std::ofstream(output + "/events.jsonl", std::ios::app)
      << R"({"event":"step","step":9,"loss":1})" << '\n'
      << R"({"event":"warning","step":9,"message":"again"})" << '\n'
      << R"({"event":"oom","step":9})" << '\n'
      << std::string(20, '\0') << '\n'
      << R"({"event":"oom","step":)" << std::string(100'000, '[') << std::string(100'000, ']') << "}\n"
      << R"({"event":"oom","step":")" << std::string(17 << 20, 'x') << "\"}\n"
      << R"({"event":"step","step":10,"lo)";
  std::vector<std::string> words = run_of(output, "--resume");
  words.push_back("train.steps=9");
  REQUIRE(run_trainer(words).exit_code == 0);
  const std::vector<json> after = events_in(output);
  REQUIRE(after.size() > before.size());
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == before[i]);
  CHECK(steps_of(after, "step") == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(events_named(after, "oom").size() == 1);
  CHECK(events_named(after, "warning").empty());
  std::filesystem::remove(output + "/events.jsonl");  // that line is none of trainer's
}
