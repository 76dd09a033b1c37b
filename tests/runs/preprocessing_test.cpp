#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;
using nlohmann::json;

namespace {

json read_json(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  return json::parse(file);
}

std::string written(const ScratchFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

}  // namespace

TEST_CASE("what a table's features went through and its classes' names are told, and stand in every checkpoint") {
  ScratchFolder folder;
  const std::vector<double> lengths = {1, 2, 3, 4, 5, 6, 7, 12};
  const std::vector<double> widths = {100, 300, 200, 500, 400, 700, 600, 800};
  std::string table = "length,kind,width\n";
  for (std::size_t i = 0; i < lengths.size(); ++i)
    table += std::to_string(lengths[i]) + (i % 2 == 0 ? ",zebra," : ",ant,") + std::to_string(widths[i]) + "\n";
  const std::string config = written(folder, "table.yaml",
                                     "data: {type: csv, train: " + written(folder, "table.csv", table) +
                                         ", target: kind}\n"
                                         "model: {layers: [{linear: {out: 2}}]}\n"
                                         "train: {batch_size: 4, epochs: 3}\ncheckpoint: {every: 2}\n"
                                         "device: cpu\noutput: " +
                                         (folder / "run") + "\n");
  const ProcessResult result = run_trainer({"run", config});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("features standardised: length, width; classes: ant, zebra (with every checkpoint)"));

  std::ifstream events(folder / "run/events.jsonl");
  std::string line;
  REQUIRE(std::getline(events, line));
  const json start = json::parse(line)["preprocessing"];
  for (const char* step : {"step-00000004", "step-00000006"}) {
    const json saved = read_json(folder / (std::string("run/checkpoints/") + step + "/state.json"));
    CHECK(saved["data"]["preprocessing"] == start);
  }
  CHECK(start["features"] == json({"length", "width"}));
  CHECK(start["target"] == "kind");
  CHECK(start["classes"] == json({"ant", "zebra"}));
  int feature = 0;
  for (const std::vector<double>* values : {&lengths, &widths}) {
    double mean = 0, variance = 0;
    for (const double value : *values) mean += value / 8;
    for (const double value : *values) variance += (value - mean) * (value - mean) / 8;
    CHECK(start["mean"][feature] == Approx(mean));
    CHECK(start["std"][feature++] == Approx(std::sqrt(variance)));
  }
  // They are read back, and a run that is resumed saves them again.
  REQUIRE(run_trainer({"run", config, "--resume", "train.epochs=4"}).exit_code == 0);
  CHECK(read_json(folder / "run/checkpoints/step-00000008/state.json")["data"]["preprocessing"] == start);
}

TEST_CASE("weights that do not fit are refused without a summary of nothing") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer({"run", "configs/quickstart.yaml", "--weights",
                                            written(folder, "no.safetensors", "none"), "output=" + (folder / "run")});
  CHECK(result.exit_code == 6);
  CHECK_THAT(result.out, !Contains("after 0 steps"));
  CHECK_THAT(result.err, Contains("no.safetensors"));
}
