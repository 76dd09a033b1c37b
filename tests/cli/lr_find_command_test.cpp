#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

TEST_CASE("learning rates are found without a trace, the same each time") {
  const ScratchFolder folder;
  const std::vector<std::string> words = {"lr-find", "configs/quickstart.yaml", "output=" + folder / "run", "--json"};
  const ProcessResult first = run_trainer(words), second = run_trainer(words);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK(first.err.empty());
  CHECK(std::count(first.out.begin(), first.out.end(), '\n') == 1);
  const auto told = nlohmann::json::parse(first.out), again = nlohmann::json::parse(second.out);
  CHECK(told["event"] == "lr_find");
  CHECK(told["losses"] == again["losses"]);
  CHECK(told["suggestions"] == again["suggestions"]);
  const double valley = told["suggestions"]["valley"];
  CHECK(valley > 1e-4);
  CHECK(valley < 0.1);
  CHECK(told["memory"]["peak_reserved"].get<std::int64_t>() > 0);
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the curve of learning rates is shown, and drawn into a file that is not replaced unasked") {
  const ScratchFolder folder;
  const std::string svg = folder / "rates.svg";
  const std::vector<std::string> words = {"lr-find", "configs/quickstart.yaml", "--steps", "40", "--svg", svg};
  const ProcessResult shown = run_trainer(words);
  INFO(shown.err);
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Contains("v  valley") && Contains("trainer run configs/quickstart.yaml optimizer.lr="));
  REQUIRE(std::filesystem::exists(svg));
  const ProcessResult refused = run_trainer(words);
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("rates.svg"));
  std::vector<std::string> replacing = words;
  replacing.insert(replacing.end(), {"--overwrite", "-q"});
  const ProcessResult quiet = run_trainer(replacing);
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.out.empty());
}

TEST_CASE("learning rates are found for weights that a run has saved") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  REQUIRE(run_trainer({"run", "configs/quickstart.yaml", "train.epochs=2", "output=" + run, "-q"}).exit_code == 0);
  const auto first_loss = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"lr-find", "configs/quickstart.yaml", "--json", "--steps", "12"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out)["step_losses"][0].get<double>();
  };
  const double fresh = first_loss({}), trained = first_loss({"--from-run", run});
  CHECK(trained < fresh / 2);
  CHECK(trained == first_loss({"--weights", run}));
}

TEST_CASE("what a range test cannot do is said") {
  struct Refused {
    std::vector<std::string> words;
    int exit_code;
    std::string message;
  };
  for (const auto& [words, exit_code, message] : std::vector<Refused>{
           {{"--from", "1", "--to", "0.1"}, 2, "the rates rise from one to the other"},
           {{"--from", "0"}, 2, "is no number above 0"},
           {{"--from", "nan"}, 2, "is no number above 0"},
           {{"--steps", "9"}, 2, "--steps"},
           {{"--weights", "nowhere.safetensors"}, 6, "nowhere.safetensors"},
           {{"memory.limit=3MiB", "train.batch_size=512"}, 3, "train.batch_size=11"},
           {{"--from", "1e30", "--to", "1e35"}, 5, ""},
       }) {
    std::vector<std::string> all = {"lr-find", "configs/quickstart.yaml"};
    all.insert(all.end(), words.begin(), words.end());
    const ProcessResult result = run_trainer(all);
    INFO(words.back() << '\n' << result.out << result.err);
    CHECK(result.exit_code == exit_code);
    CHECK_THAT(result.err, Contains(message));
  }
}

TEST_CASE("what measures by one process says so of a configuration of several ranks") {
  struct Command {
    std::vector<std::string> words;
    std::string said;
  };
  const Command commands[] = {
      {{"lr-find", "configs/quickstart.yaml", "--steps", "12"}, "'lr-find' runs as one process, on the whole batch.\n"},
      {{"bench", "configs/quickstart.yaml", "--steps", "2"}, "'bench' runs as one process, on the whole batch.\n"},
  };
  for (const auto& [words, said] : commands) {
    CHECK_THAT(run_trainer(words).err, !Contains("one process"));
    std::vector<std::string> with_ranks = words;
    with_ranks.emplace_back("parallel.data=4");
    CHECK_THAT(run_trainer(with_ranks).err, Contains("4 ranks are configured; " + said));
    with_ranks.emplace_back("--json");
    CHECK_THAT(run_trainer(with_ranks).err, !Contains("one process"));
  }
}
