#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Two stages of four steps on the digits, and what predicts behind them.
struct StagedFolder : ScratchFolder {
  StagedFolder() {
    std::ofstream(config()) << "name: two\ndata: {type: digits, size: 8}\n"
                               "model: {groups: {body: rest, head: [head]}, layers: [flatten, linear: {out: 16, name: "
                               "body}, relu, linear: {out: 10, name: head}]}\n"
                               "optimizer: {type: adam, lr: 0.01}\ntrain: {batch_size: 32, steps: 4}\noutput: "
                            << run()
                            << "\nstages:\n  - {name: head, freeze: {to: head}}\n  - {name: all, unfreeze: all}\n"
                               "  - predict: {inputs: [tests/datasets/digit_images/images], output: "
                            << rows() << "}\n";
  }
  std::string config() const { return *this / "two.yaml"; }
  std::string run() const { return *this / "run"; }
  std::string rows() const { return *this / "rows.csv"; }
};

}  // namespace

TEST_CASE("a run of stages ends with its predictions, and none where --until ends it before") {
  const StagedFolder folder;
  const ProcessResult part = run_trainer({"run", folder.config(), "--until", "all", "-q"});
  REQUIRE(part.exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(folder.rows()));
  CHECK_THAT(part.err, Contains("frozen as the seed drew them"));
  const ProcessResult end = run_trainer({"run", folder.config(), "--resume", "-q"});
  REQUIRE(end.exit_code == 0);
  CHECK(std::filesystem::exists(folder.rows()));
  // A folder that goes on from the end of another run predicts by what it was handed.
  const ProcessResult other =
      run_trainer({"run", folder.config(), "--resume=" + folder.run(), "output=" + (folder / "other"), "-q"});
  INFO(other.err);
  CHECK(other.exit_code == 0);
  const ProcessResult weights = run_trainer({"run", folder.config(), "--resume", "--weights", folder.run()});
  CHECK(weights.exit_code == 2);
  CHECK_THAT(weights.err, Contains("leave --weights out"));
}

TEST_CASE("what stays cached for a stage that is not purged is told, planned and run") {
  const StagedFolder folder;
  const ProcessResult plan = run_trainer({"plan", folder.config(), "stages.1.purge=false"});
  REQUIRE(plan.exit_code == 0);
  CHECK_THAT(plan.out, Contains("kept") && Contains("the next stage says purge: false"));
  const ProcessResult json = run_trainer({"plan", folder.config(), "stages.1.purge=false", "--json"});
  CHECK_THAT(json.out, Contains(R"("purged":0,"kept":2097152,"purged_to_fit":false})"));
  const ProcessResult run = run_trainer({"run", folder.config(), "stages.1.purge=false"});
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("not purged: 2.00 MiB reserved, now 2.00 MiB"));
  const ProcessResult purged = run_trainer({"run", folder.config(), "--overwrite"});
  CHECK_THAT(purged.out, Contains("  purged: 2.00 MiB reserved, now 0 B"));
  const ProcessResult explained = run_trainer({"config", "explain", "purge"});
  CHECK(explained.exit_code == 0);
  CHECK_THAT(explained.out, Contains("(of an entry of stages)"));
}

TEST_CASE("a run that is in the way is told of before the file that it has predicted") {
  const StagedFolder folder;
  REQUIRE(run_trainer({"run", folder.config(), "-q"}).exit_code == 0);
  REQUIRE(std::filesystem::exists(folder.rows()));
  const ProcessResult again = run_trainer({"run", folder.config(), "--from", "all"});
  CHECK(again.exit_code == 6);
  CHECK_THAT(again.err, Contains("already holds a run; --resume continues it"));
}

TEST_CASE("what a prediction behind the stages lacks is told before anything is trained") {
  const StagedFolder folder;
  struct Refused {
    std::string word, said;
  };
  for (const Refused& one : std::vector<Refused>{
           {"stages.2.predict.inputs=[/nope/a.png]", "'/nope/a.png', to be predicted from, does not exist"},
           {"stages.2.predict.output=/nope/rows.csv", "there is no folder '/nope'"},
           {"stages.2.predict.masks=masks", "masks are for a class of each pixel"},
           {"stages.1.optimizer={clear: [haed]}", "no layer group 'haed'"},
       }) {
    const ProcessResult result = run_trainer({"run", folder.config(), one.word});
    INFO(one.word << "\n" << result.out);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(one.said));
    CHECK_FALSE(std::filesystem::exists(folder.run() + "/checkpoints"));
  }
}

TEST_CASE("commands to paste keep the part of the stages that a run was asked for") {
  const StagedFolder folder;
  const std::vector<std::string> run = {
      "run", folder.config(), "stages.1.train.batch_size=1000", "stages.1.memory.limit=200KiB", "--until", "all"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = run;
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words);
  };
  const ProcessResult planned = with({"--from", "all"});
  CHECK(planned.exit_code == 3);
  CHECK_THAT(planned.err, Contains("--from all --until all"));
  // A stage that runs out of memory behind the checkpoint of another goes on from that with any change.
  const ProcessResult later = with({"memory.preflight=false", "memory.allocator=caching"});
  CHECK(later.exit_code == 3);
  CHECK_THAT(later.err, Contains("--until all --resume") && !Contains("--overwrite"));
}

TEST_CASE("a part that begins behind the newest checkpoint is refused with the line that goes on into it") {
  const StagedFolder folder;
  REQUIRE(run_trainer({"run", folder.config(), "--until", "head", "-q"}).exit_code == 0);
  const ProcessResult refused = run_trainer({"run", folder.config(), "--from", "all", "--until", "all", "--resume"});
  CHECK(refused.exit_code == 2);
  const std::string line = "run " + folder.config() + " --resume --until all\n";
  CHECK_THAT(refused.err, Contains("is of stage head, right before all") && Contains(line) &&
                              Contains("--weights " + folder.run()) && Contains("output=FOLDER"));
  const ProcessResult pasted = run_trainer({"run", folder.config(), "--resume", "--until", "all"});
  CHECK(pasted.exit_code == 0);
  CHECK_THAT(pasted.out, Contains("stage 2 of 2, all: steps 5 to 8") && Contains("Done after 8 steps"));
  // A checkpoint behind the part.
  const ProcessResult behind = run_trainer({"run", folder.config(), "--until", "head", "--resume"});
  CHECK(behind.exit_code == 2);
  CHECK_THAT(behind.err, Contains("which --from and --until leave out"));
}

TEST_CASE("a sweep that only plans tells of the stage that needs most") {
  const StagedFolder folder;
  const ProcessResult result = run_trainer({"sweep", folder.config(), "stages.1.train.batch_size=500,1000",
                                            "--plan-only", "-q", "output=" + (folder / "sweep")});
  REQUIRE(result.exit_code == 0);
  std::ifstream csv(folder / "sweep/sweep.csv");
  std::string header, first, second;
  std::getline(csv, header);
  std::getline(csv, first);
  std::getline(csv, second);
  const auto peak_in = [&](const std::string& row) {
    const auto column = [](const std::string& line, std::size_t index) {
      std::istringstream cells(line);
      std::string cell;
      for (std::size_t i = 0; i <= index; ++i) std::getline(cells, cell, ',');
      return cell;
    };
    std::size_t i = 0;
    while (i < 40 && column(header, i) != "peak_allocated") ++i;
    return std::stoll(column(row, i));
  };
  CHECK(peak_in(second) > peak_in(first));
}
