#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// A folder with a short run of the quickstart, and what its evaluations told.
struct EvaluatedRun : ScratchFolder {
  EvaluatedRun() {
    const ProcessResult run = run_trainer({"run", "configs/quickstart.yaml", "train.epochs=3", "device.threads=1",
                                           "checkpoint={every: 1ep, keep: 9}", "output=" + this->run(), "--json"});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event["event"] == "eval") evaluations.push_back(event);
      if (event["event"] == "end") best_step = event["best_step"];
    }
    REQUIRE(evaluations.size() == 3);
  }
  std::string run() const { return *this / "run"; }
  std::string checkpoint(std::int64_t step) const {
    std::string number = std::to_string(step);
    return run() + "/checkpoints/step-" + std::string(8 - number.size(), '0') + number;
  }

  std::vector<nlohmann::json> evaluations;
  std::int64_t best_step = 0;
};

ProcessResult evaluated(std::vector<std::string> words, int exit_code = 0) {
  words.insert(words.begin(), "eval");
  ProcessResult result = run_trainer(words);
  INFO(result.out << result.err);
  CHECK(result.exit_code == exit_code);
  return result;
}

nlohmann::json told_of(std::vector<std::string> words) {
  words.emplace_back("--json");
  const ProcessResult result = evaluated(words);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);
  return nlohmann::json::parse(result.out);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a run's best weights, a checkpoint and a file are evaluated to the numbers that the run told") {
  const EvaluatedRun folder;
  for (const nlohmann::json& evaluation : folder.evaluations) {
    const std::int64_t step = evaluation["step"];
    std::vector<nlohmann::json> told = {told_of({folder.checkpoint(step)}),
                                        told_of({"configs/quickstart.yaml", "device.threads=1", "--weights",
                                                 folder.checkpoint(step) + "/model.safetensors"}),
                                        told_of({folder.run(), "--weights", folder.checkpoint(step), "--worst", "0"})};
    if (step == folder.best_step) told.push_back(told_of({folder.run()}));
    for (const nlohmann::json& one : told) {
      CHECK(one["loss"] == evaluation["loss"]);
      CHECK(one["accuracy"] == evaluation["accuracy"]);
      CHECK(one["top5"] == evaluation["top5"]);
      CHECK(one["samples"] == evaluation["samples"]);
    }
    CHECK(told[0]["worst"].size() == 10);
    CHECK(told[2]["worst"].empty());
  }
}

TEST_CASE("an evaluation holds less than a run, and what it tells of classes adds up") {
  const EvaluatedRun folder;
  const nlohmann::json told = told_of({folder.run(), "--worst", "3"});
  CHECK(told["memory"]["peak_allocated"] < folder.evaluations[0]["memory"]["peak_allocated"]);
  std::int64_t right = 0, all = 0;
  for (std::size_t truth = 0; truth < 10; ++truth) {
    std::int64_t row = 0;
    for (std::size_t guess = 0; guess < 10; ++guess) row += told["confusion"][truth][guess].get<std::int64_t>();
    CHECK(told["classes"][truth]["samples"] == row);
    right += told["confusion"][truth][truth].get<std::int64_t>();
    all += row;
  }
  CHECK(all == told["samples"]);
  CHECK(static_cast<double>(right) / static_cast<double>(all) == Approx(told["accuracy"].get<double>()));
  CHECK_FALSE(told.contains("mean_iou"));  // which the run did not tell

  const std::string csv = folder / "confusion.csv";
  const ProcessResult shown = evaluated({folder.run(), "--worst", "3", "--confusion", csv});
  CHECK_THAT(shown.out, Contains("Classes") && Contains("precision") && Contains("true \\ guessed") &&
                            Contains("The 3 samples of the highest loss"));
  CHECK_THAT(content_of(csv), Catch::StartsWith("true\\predicted,0,1,2,3,4,5,6,7,8,9\n0,"));
  CHECK_THAT(evaluated({folder.run(), "--confusion", csv}, 6).err, Contains("confusion.csv"));
  CHECK(evaluated({folder.run(), "--confusion", csv, "--overwrite", "-q"}).out.empty());
}

TEST_CASE("weights are evaluated on other data, a file or a folder") {
  const ScratchFolder folder;
  const auto write = [&](const std::string& name, const std::vector<std::pair<double, int>>& rows) {
    std::ofstream file(folder / name);
    file << "x,y\n";
    for (const auto& [x, y] : rows) file << x << ',' << y << '\n';
  };
  std::vector<std::pair<double, int>> rows;
  for (int i = 0; i < 40; ++i) rows.emplace_back(i - 20, i < 20 ? 0 : 1);
  write("train.csv", rows);
  write("valid.csv", rows);
  write("other.csv", {{-30, 1}, {30, 1}, {25, 1}, {-25, 0}});
  std::ofstream(folder / "table.yaml") << "device: {type: cpu, threads: 1}\ndata: {type: csv, train: "
                                       << folder / "train.csv"
                                       << ", validation: " << folder / "valid.csv"
                                       << "}\nmodel: {layers: [linear: {out: 2}]}\noptimizer: {lr: 0.5}\n"
                                          "train: {batch_size: 8, epochs: 20}\noutput: "
                                       << folder / "run"
                                       << "\n";
  const ProcessResult run_of_table = run_trainer({"run", folder / "table.yaml", "-q"});
  INFO(run_of_table.err);
  REQUIRE(run_of_table.exit_code == 0);
  CHECK(told_of({folder / "run"})["samples"] == 40);
  const nlohmann::json other = told_of({folder / "run", "--data", folder / "other.csv"});
  CHECK(other["samples"] == 4);
  CHECK(other["accuracy"] == 0.75);
  CHECK(other["worst"][0]["index"] == 0);
  CHECK(other["worst"][0]["target"] == 1);
  CHECK(other["worst"][0]["predicted"] == 0);
  CHECK_THAT(evaluated({folder / "run", "--data", folder / "none.csv"}, 6).err, Contains("does not exist"));

  // A folder of class folders, with the names of files.
  const std::string images = std::string(TRAINER_SOURCE_DIR) + "/tests/datasets/digit_images/images";
  std::ofstream(folder / "images.yaml") << "device: {type: cpu, threads: 1}\ndata: {type: image_folder, root: "
                                        << images
                                        << ", channels: 1, split: 0.2}\n"
                                           "model: {layers: [flatten, linear: {out: 10}]}\ntrain: {batch_size: 8}\n"
                                           "output: "
                                        << folder / "run_of_images"
                                        << "\n";
  const ProcessResult run = run_trainer({"run", folder / "images.yaml", "-q"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json part = told_of({folder / "run_of_images"});
  const nlohmann::json all = told_of({folder / "run_of_images", "--data", images});
  CHECK(all["samples"].get<int>() > 4 * part["samples"].get<int>());
  CHECK_THAT(all["worst"][0]["file"].get<std::string>(), Contains("images/"));
}

TEST_CASE("an evaluation that does not fit says who would hold the memory and which batch fits") {
  const EvaluatedRun folder;
  const ProcessResult refused = evaluated({folder.run(), "memory.limit=3MiB", "train.eval_batch_size=360"}, 3);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Contains("Out of memory") && Contains("by category") && Contains("the capacity is 3.00 MiB"));
  const std::string key = "train.eval_batch_size=";
  const std::size_t at = refused.err.rfind(key);
  REQUIRE(at != std::string::npos);
  const std::string batch = refused.err.substr(at, refused.err.find_first_of(" \n\\", at) - at);
  CHECK(batch != "train.eval_batch_size=360");
  evaluated({folder.run(), "memory.limit=3MiB", batch, "-q"});
}

TEST_CASE("what cannot be evaluated is said") {
  const EvaluatedRun folder;
  std::filesystem::create_directory(folder / "empty");
  struct Refused {
    std::vector<std::string> words;
    int exit_code;
    std::string message;
  };
  for (const auto& [words, exit_code, message] : std::vector<Refused>{
           {{"configs/quickstart.yaml"}, 2, "names no weights to evaluate"},
           {{folder / "empty"}, 6, "neither the folder of a run nor that of a checkpoint"},
           {{"configs/quickstart.yaml", "--weights", folder / "empty"}, 6, "holds no weights"},
           {{folder.run(), "--data", folder / "empty"}, 2, "reads none"},
           {{folder.run(), "--worst", "-1"}, 2, "--worst"},
           {{folder.run(), "model.layers.9.linear.out=65"}, 6, "9.weight"},
           {{"configs/quickstart.yaml", "--weights", folder.run(), "weights.new=[11.bias]", "weights.ignore=[11.bias]"},
            2,
            "without a value to evaluate"},
           {{"configs/quickstart.yaml", "--weights", folder.run(),
             "data={type: synthetic, shape: [8, 8, 1], classes: 10, samples: 8}"},
            2,
            "no validation data"},
       }) {
    const ProcessResult result = evaluated(words, exit_code);
    INFO(words.back());
    CHECK_THAT(result.err, Contains(message));
    CHECK(result.out.empty());
  }
}
