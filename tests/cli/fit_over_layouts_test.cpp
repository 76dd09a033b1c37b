#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/cli/process.h"

// `trainer fit --gpu 'h100*8' --nodes 2`: which layouts of all of these GPUs are the fastest.

using namespace trainer;
using Catch::Contains;

namespace {

struct LayoutFolder : ScratchFolder {
  /// Of ten layers.
  std::string config(const std::string& more = "") const {
    std::ofstream(*this / "model.yaml")
        << "name: small\nmemory: {allocator: caching}\n"
           "data: {type: synthetic, shape: [256], classes: 8, samples: 300, validation_samples: 60}\n"
           "model: {layers: [repeat: {times: 5, layers: [linear: {out: 8192}, relu]}, linear: {out: 8, name: head}]}\n"
           "optimizer: adam\ntrain: {batch_size: 60, epochs: 2}\n" +
               more;
    return *this / "model.yaml";
  }
};

nlohmann::json asked(std::vector<std::string> words, int exit_code = 0) {
  words.emplace_back("--json");
  const ProcessResult result = run_trainer(words);
  INFO(result.err);
  REQUIRE(result.exit_code == exit_code);
  return nlohmann::json::parse(result.out);
}

/// Of the rank that reserves most, which of stages need not be rank 0.
std::int64_t most_reserved(const nlohmann::json& plan) {
  std::int64_t most = 0;
  for (const nlohmann::json& rank : plan["ranks"]["plans"])
    most = std::max(most, rank["peak_reserved"].get<std::int64_t>());
  return most;
}

/// Each choice is of all GPUs, and planned with its overrides it has the peak and the time that were told.
void check_choices(const std::vector<std::string>& words, const std::string& gpu, const std::string& num_gpus,
                   const std::string& num_nodes, const std::vector<std::string>& more) {
  std::vector<std::string> words_of_fit = {"fit"};
  words_of_fit.insert(words_of_fit.end(), words.begin(), words.end());
  words_of_fit.insert(words_of_fit.end(), {"--gpu", gpu + "*" + num_gpus, "--nodes", num_nodes});
  words_of_fit.insert(words_of_fit.end(), more.begin(), more.end());
  const nlohmann::json fit = asked(words_of_fit);
  REQUIRE(!fit["choices"].empty());
  for (const nlohmann::json& choice : fit["choices"]) {
    CHECK(choice["ranks"] == std::stoll(num_gpus));
    std::vector<std::string> words_of_plan = {"plan"};
    words_of_plan.insert(words_of_plan.end(), words.begin(), words.end());
    words_of_plan.insert(words_of_plan.end(), {"--gpu", gpu});
    words_of_plan.insert(words_of_plan.end(), more.begin(), more.end());
    for (const nlohmann::json& word : choice["set"]) words_of_plan.push_back(word);
    INFO(choice["set"]);
    const nlohmann::json plan = asked(words_of_plan);
    CHECK(plan["fits"] == true);
    CHECK(most_reserved(plan) == choice["peak_reserved"]);
    // The plan waits for the slowest rank, and all but rank 0, which fit knows, have one launch more.
    constexpr double launch_seconds = 2.5e-6;
    CHECK(plan["step_seconds"].get<double>() ==
          Approx(choice["step_seconds"].get<double>()).epsilon(1e-3).margin(launch_seconds));
    CHECK(plan["ranks"]["communicated_bytes"] == choice["communicated_bytes"]);
    CHECK(plan["ranks"]["efficiency"].get<double>() == Approx(choice["computing_share"].get<double>()).epsilon(0.01));
  }
}

}  // namespace

TEST_CASE("what fit tells of layouts is what a plan with their overrides has") {
  const LayoutFolder folder;
  const std::string config = folder.config();
  check_choices({config}, "h100", "8", "2", {});
  check_choices({config}, "a100-80gb", "4", "1", {});
  // A layout that the configuration has is one of all, and what it says of machines stands where they are such.
  check_choices({folder.config("parallel: {data: 2, shard: parameters, ranks_per_node: 2}\n")}, "h100", "4", "2", {});
  // Less than all of it takes without a pipeline or shards.
  check_choices({folder.config()}, "h100", "8", "1", {"--capacity", "1536MiB"});
}

TEST_CASE("layouts of GPT-2 are found in 16 bit, whose weights two stages share") {
  check_choices({std::string(TRAINER_SOURCE_DIR) + "/configs/memory/gpt2.yaml", "model.with.depth=4", "train.amp=bf16",
                 "train.batch_size=8"},
                "h100", "2", "1", {});
}

TEST_CASE("fit writes the layout that was picked as a configuration") {
  const LayoutFolder folder;
  const std::string config = folder.config(), file = folder / "chosen.yaml";
  const nlohmann::json fit = asked({"fit", config, "--gpu", "h100*4", "--nodes", "2", "--write", file, "--pick", "1"});
  const nlohmann::json plan = asked({"plan", file, "--gpu", "h100"});
  CHECK(most_reserved(plan) == fit["choices"][0]["peak_reserved"]);
  CHECK_THAT(run_trainer({"config", "show", file}).out, Contains("ranks_per_node: 2"));
}

TEST_CASE("the table of layouts has a row of 100 columns at most for each, and what to paste") {
  const LayoutFolder folder;
  const ProcessResult result = run_trainer({"fit", folder.config(), "--gpu", "h100*8", "--nodes", "2"});
  INFO(result.out);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("Searched: layouts of 8 GPUs on 2 machines of 4.") && Contains("peak a GPU") &&
                             Contains("parallel.ranks_per_node=4") && Contains("Paste the first"));
}

TEST_CASE("what cannot be searched for layouts is told") {
  const LayoutFolder folder;
  const std::string config = folder.config();
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"fit", config});
    const ProcessResult result = run_trainer(words);
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(refusal({"--nodes", "2"}), Contains("write --gpu 'h100*16' --nodes 2"));
  CHECK_THAT(refusal({"--gpu", "h100", "--nodes", "2"}), Contains("write --gpu 'h100*16' --nodes 2"));
  CHECK_THAT(refusal({"--gpu", "h100*4,a100-80gb*4", "--nodes", "2"}), Contains("one kind of GPU"));
  CHECK_THAT(refusal({"--gpu", "h100*9", "--nodes", "2"}), Contains("9 are not a multiple of 2"));
  CHECK_THAT(refusal({"--gpu", "h100*8", "--nodes", "2", "--ranks", "4"}), Contains("leave one out"));
  CHECK_THAT(refusal({"--gpu", "h100*8", "--nodes", "2", "--max", "train.batch_size"}), Contains("leave one out"));
  CHECK_THAT(refusal({"--gpu", "h100*8", "--nodes", "2", "train.batch_size=auto"}), Contains("set a number"));
  CHECK_THAT(refusal({"--gpu", "h100*8", "--nodes", "0"}), Contains("--nodes"));
  CHECK(run_trainer({"fit", config, "--gpu", "h100*8", "--nodes", "2", "--capacity", "1MiB", "-q"}).exit_code == 4);
}

TEST_CASE("a number of GPUs without --nodes is still searched for how many are needed") {
  const LayoutFolder folder;
  const nlohmann::json fit = asked({"fit", folder.config(), "--gpu", "h100*4"});
  CHECK(fit["searched_ranks"].size() == 3);
  CHECK_FALSE(fit.contains("searched_layouts"));
}
