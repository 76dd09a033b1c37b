// A disk that takes no more: the largest size that a file may have stands for its end.

#include <fstream>
#include <iterator>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;
using nlohmann::json;

namespace {

constexpr rlim_t most_file_bytes = 32 << 10;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Checkpoints of 3 and 6 KiB, and a step's line of events takes some 400 bytes.
std::vector<std::string> small_run(const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",
                                    "tests/runs/digits_mlp.yaml",
                                    "model.layers=[flatten, linear: {out: 10}]",
                                    "train.epochs=100",
                                    "train.steps=240",
                                    "checkpoint.best=loss",
                                    "--json",
                                    "output=" + output};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ProcessOptions with_small_files(rlim_t num_bytes) {
  ProcessOptions options;
  options.before_start = [num_bytes] {
    const rlimit both{num_bytes, num_bytes};
    setrlimit(RLIMIT_FSIZE, &both);
  };
  return options;
}

}  // namespace

TEST_CASE("a run that can write no more events says so once, saves what it has trained, and exits with 6") {
  const ScratchFolder folder;
  // The line that does not fit is an evaluation's, one in front of a checkpoint, the last checkpoint's, a step's.
  const std::vector<std::vector<std::string>> settings = {{"train.eval_every=7", "checkpoint.keep=100"},
                                                          {"train.eval_every=1000", "checkpoint.every=9"},
                                                          {"train.eval_every=1000", "train.steps=100"},
                                                          {"train.eval_every=1000"}};
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string whole = folder / ("whole" + std::to_string(i)), output = folder / ("run" + std::to_string(i));
    REQUIRE(run_trainer(small_run(whole, settings[i])).exit_code == 0);
    const ProcessResult result = run_trainer(small_run(output, settings[i]), with_small_files(most_file_bytes));
    INFO("setting " << i << ": " << result.err);
    CHECK(result.exit_code == 6);
    const std::string told = "error: cannot write the events: " + output + "/events.jsonl: File too large\n";
    CHECK(result.err.starts_with(told + "The last checkpoint is " + output + "/checkpoints/step-"));
    CHECK(result.err.ends_with("--resume\n"));
    const std::vector<json> events = events_of(result.out);
    const json end = events.back();
    CHECK(end["event"] == "end");
    CHECK(end["status"] == "failed");
    const std::int64_t num_steps = end["steps"];
    CHECK(num_steps > 20);
    CHECK(events_named(events, "step").size() == static_cast<std::size_t>(num_steps));
    CHECK(events_named(events, "checkpoint").back()["step"] == num_steps);

    std::vector<std::string> resume = settings[i];
    resume.emplace_back("--resume");
    const ProcessResult resumed = run_trainer(small_run(output, resume));
    INFO(resumed.err);
    CHECK(resumed.exit_code == 0);
    CHECK(events_of(resumed.out).front()["first_step"] == num_steps + 1);
    const std::string weights = "/checkpoints/latest/model.safetensors";
    CHECK(content_of(output + weights) == content_of(whole + weights));
  }
}

TEST_CASE("a checkpoint that is larger than a file may be is an error, and the one before stays") {
  const ScratchFolder folder;
  const std::string output = folder / "run";
  REQUIRE(run_trainer(small_run(output, {"train.steps=2"})).exit_code == 0);
  const std::vector<std::string> longer = {"train.steps=4", "--resume"};
  const ProcessResult refused = run_trainer(small_run(output, longer), with_small_files(5 << 10));
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("File too large"));
  const ProcessResult resumed = run_trainer(small_run(output, longer));
  CHECK(resumed.exit_code == 0);
  CHECK(events_of(resumed.out).front()["first_step"] == 3);
}
