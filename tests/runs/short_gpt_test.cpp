#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

using namespace trainer;

// configs/shakespeare_gpt.yaml, smaller and shorter, against the losses that PyTorch has: what is in the folder
// scripts/oracle/make_short_gpt.py has written.
TEST_CASE("a short run of the shipped recipe for a GPT ends in PyTorch's losses") {
  const std::string folder_of_text = TRAINER_SOURCE_DIR "/tests/runs/short_gpt";
  std::ifstream file(folder_of_text + "/expected.json");
  REQUIRE(file);
  const nlohmann::json expected = nlohmann::json::parse(file);
  const auto losses = expected["losses"].get<std::vector<double>>();
  const double allowed = 20 * expected["rounding"].get<double>();
  REQUIRE(allowed < 1e-4);

  const std::vector<std::vector<std::string>> variants = {{},
                                                          {"memory.allocator=planned", "train.checkpointing=sqrt"},
                                                          {"train.accumulation_steps=2", "train.batch_size=4"}};
  for (const std::vector<std::string>& variant : variants) {
    const ScratchFolder folder;
    std::filesystem::copy(folder_of_text + "/input.txt", folder / "input.txt");
    std::vector<std::string> words = {"run",
                                      "configs/shakespeare_gpt.yaml",
                                      "device=cpu",
                                      "data.root=" + folder.path(),
                                      "output=" + (folder / "run"),
                                      "--weights",
                                      folder_of_text + "/initial.safetensors",
                                      "--json"};
    for (const nlohmann::json& word : expected["set"]) words.push_back(word.get<std::string>());
    words.insert(words.end(), variant.begin(), variant.end());
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);

    std::size_t step = 0;
    double of_evaluation = 0;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      if (event["event"] == "eval") of_evaluation = event["loss"];
      if (event["event"] != "step") continue;
      INFO("step " << step + 1);
      REQUIRE(step < losses.size());
      CHECK(std::fabs(event["loss"].get<double>() - losses[step++]) <= allowed);
    }
    CHECK(step == losses.size());
    CHECK(std::fabs(of_evaluation - expected["evaluation_loss"].get<double>()) <= allowed);
  }
}
