#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/cli/process.h"

// `trainer fit` over several numbers of ranks: what it writes, stages, and what more ranks do to the numbers.

using namespace trainer;
using Catch::Contains;

namespace {

struct FitFolder : ScratchFolder {
  /// Of which `layers` is the model.
  std::string config(const std::string& layers, const std::string& more = "") const {
    std::ofstream(*this / "model.yaml")
        << "name: small\ndevice: {type: cpu, threads: 1}\nmemory: {allocator: caching}\n"
           "data: {type: synthetic, shape: [8, 8, 3], classes: 8, samples: 300, validation_samples: 60}\n"
           "model:\n  layers: [" +
               layers +
               "]\n"
               "optimizer: adam\ntrain: {batch_size: 60, epochs: 2}\n" +
               more;
    return *this / "model.yaml";
  }
};

constexpr const char* plain_layers =
    "conv2d: {out: 24, kernel: 3}, relu, conv2d: {out: 24, kernel: 3}, relu, flatten, "
    "linear: {out: 8, name: head}";
constexpr const char* norm_layers =
    "conv2d: {out: 24, kernel: 3}, batchnorm2d, relu, conv2d: {out: 24, kernel: 3}, "
    "batchnorm2d, relu, flatten, linear: {out: 8, name: head}";

nlohmann::json answered(std::vector<std::string> words, int exit_code = 0) {
  words.emplace_back("--json");
  const ProcessResult result = run_trainer(words);
  INFO(result.err);
  REQUIRE(result.exit_code == exit_code);
  return nlohmann::json::parse(result.out);
}

nlohmann::json fit_over(std::vector<std::string> words, int exit_code = 0) {
  words.insert(words.begin(), "fit");
  return answered(words, exit_code);
}

bool speaks_of_norms(const nlohmann::json& fit) {
  return fit["notes"].dump().find("Batch norms go by each rank's part of a batch") != std::string::npos;
}

std::int64_t reserved_on_one(const std::string& config) {
  return answered({"plan", config})["peak_reserved"].get<std::int64_t>();
}

}  // namespace

TEST_CASE("what fit over ranks of CPUs writes is the number of ranks and the settings that were picked") {
  const FitFolder folder;
  const std::string config = folder.config(plain_layers), file = folder / "chosen.yaml";
  const std::string capacity = std::to_string(reserved_on_one(config) * 3 / 4);
  const std::vector<std::string> words = {config, "--ranks", "1..4", "--capacity", capacity};
  const nlohmann::json choices = fit_over(words)["choices"];
  REQUIRE(choices.size() >= 3);
  std::set<std::int64_t> written;
  std::size_t fastest = 0;
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices[i]["step_seconds"] < choices[fastest]["step_seconds"]) fastest = i;
  for (std::size_t pick = 0; pick <= choices.size(); ++pick) {
    INFO(pick);
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--write", file, "--overwrite"});
    if (pick > 0) all.insert(all.end(), {"--pick", std::to_string(pick)});
    fit_over(all);
    const nlohmann::json& choice = choices[pick > 0 ? pick - 1 : fastest];
    const nlohmann::json plan = answered({"plan", file, "--capacity", capacity});
    CHECK(plan["fits"] == true);
    CHECK(plan["peak_reserved"] == choice["peak_reserved"]);
    const std::int64_t num_ranks = choice["ranks"];
    std::int64_t planned = num_ranks > 1 ? 0 : 1;
    if (num_ranks > 1)
      for (const nlohmann::json& each : plan["ranks"]["plans"]) planned += each["num_ranks"].get<std::int64_t>();
    CHECK(planned == num_ranks);
    written.insert(num_ranks);
  }
  CHECK(written.size() > 1);
  std::vector<std::string> beyond = words;
  beyond.insert(beyond.begin(), "fit");
  beyond.insert(beyond.end(), {"--write", file, "--overwrite", "--pick", std::to_string(choices.size() + 1)});
  CHECK(run_trainer(beyond).exit_code == 2);
}

TEST_CASE("a stage is searched over ranks, whose number is that of all stages") {
  const FitFolder folder;
  const std::string config = folder.config(
      plain_layers,
      "stages: [{name: head, freeze: ['*', '!head']}, {name: all, unfreeze: all, train: {batch_size: 30}}]\n");
  const std::string capacity = "8MiB";
  const nlohmann::json fit = fit_over({config, "--stage", "all", "--ranks", "1..4", "--capacity", capacity});
  REQUIRE(fit["searched_ranks"].size() == 3);
  std::set<std::int64_t> numbers;
  for (const nlohmann::json& choice : fit["choices"]) {
    std::vector<std::string> words = {"plan", config, "--stage", "all", "--capacity", capacity};
    for (const nlohmann::json& word : choice["set"]) {
      words.push_back(word);
      CHECK((words.back().starts_with("parallel.data=") || words.back().starts_with("stages.1.")));
    }
    INFO(choice["set"]);
    const nlohmann::json plan = answered(words);
    CHECK(plan["fits"] == true);
    CHECK(plan["peak_reserved"] == choice["peak_reserved"]);
    numbers.insert(choice["ranks"].get<std::int64_t>());
  }
  CHECK(numbers.size() > 1);
  const ProcessResult unsaid = run_trainer({"fit", config, "--ranks", "1..4", "-q"});
  CHECK(unsaid.exit_code == 2);
  CHECK_THAT(unsaid.err, Contains("--stage says which"));
}

TEST_CASE("deterministic ranks are searched as far as parts can be shared, and have the same bits") {
  const FitFolder folder;
  const nlohmann::json fit = fit_over({folder.config(plain_layers), "--ranks", "1..8", "parallel.deterministic=true",
                                       "parallel.parts=4", "--capacity", "64MiB"});
  REQUIRE(fit["searched_ranks"].size() == 4);
  for (const nlohmann::json& searched : fit["searched_ranks"])
    CHECK(searched["problem"].is_null() == (searched["ranks"] <= 4));
  CHECK_THAT(fit["notes"].dump(),
             Contains("Left out: 8 ranks: ") && Contains("4 parts of a batch cannot be shared evenly by 8 ranks"));
  std::set<std::int64_t> numbers;
  for (const nlohmann::json& choice : fit["choices"]) {
    numbers.insert(choice["ranks"].get<std::int64_t>());
    if (choice["set"].size() == 1) CHECK(choice["numbers"] == "same_bits");
  }
  CHECK(numbers == std::set<std::int64_t>{1, 2, 4});
}

TEST_CASE("fit over ranks says where batch norms go by a rank's part, and what makes them go by the whole batch") {
  const FitFolder folder;
  const std::vector<std::string> range = {"--ranks", "1..4", "--capacity", "64MiB"};
  const auto fit_with = [&](const std::string& config, const std::vector<std::string>& more) {
    std::vector<std::string> words = {config};
    words.insert(words.end(), range.begin(), range.end());
    words.insert(words.end(), more.begin(), more.end());
    return fit_over(words);
  };
  const std::string norms = folder.config(norm_layers);
  const nlohmann::json told = fit_with(norms, {});
  CHECK(speaks_of_norms(told));
  CHECK_THAT(told["notes"].dump(), Contains("with parallel.sync_batchnorm=true they go by the whole batch"));
  const auto proposed = std::find_if(told["choices"].begin(), told["choices"].end(),
                                     [](const auto& choice) { return choice["ranks"] > 1; });
  REQUIRE(proposed != told["choices"].end());
  CHECK((*proposed)["numbers"] == "other");
  std::vector<std::string> shared = {"plan", norms, "--capacity", "64MiB", "parallel.sync_batchnorm=true"};
  for (const nlohmann::json& word : (*proposed)["set"]) shared.push_back(word);
  CHECK(answered(shared)["fits"] == true);
  std::string text = run_trainer({"fit", norms, "--ranks", "1..4", "--capacity", "64MiB"}).out;
  std::replace(text.begin(), text.end(), '\n', ' ');
  CHECK_THAT(text, Contains("Note: Batch norms go by each rank's part of a batch"));

  // Not where all ranks find them together, where parts do not depend on ranks, where they keep what they found, where
  // one rank is all that is looked at, or where there are none.
  CHECK_FALSE(speaks_of_norms(fit_with(norms, {"parallel.sync_batchnorm=true"})));
  CHECK_FALSE(speaks_of_norms(fit_with(norms, {"parallel.deterministic=true"})));
  CHECK_FALSE(speaks_of_norms(fit_with(norms, {"freeze=['*', '!head']", "freeze_norms=on"})));
  CHECK_FALSE(speaks_of_norms(fit_with(norms, {"--keep", "same-result"})));
  CHECK_FALSE(speaks_of_norms(fit_with(folder.config(plain_layers), {})));
}

TEST_CASE("that norms can go by the whole batch is told where that fits as well") {
  const FitFolder folder;
  std::ofstream(folder / "wide.yaml")
      << "name: wide\ndevice: {type: cpu, threads: 1}\nmemory: {allocator: planned}\n"
         "data: {type: synthetic, shape: [8, 8, 64], classes: 8, samples: 300, validation_samples: 60}\n"
         "model: {layers: [flatten, batchnorm1d, linear: {out: 8}]}\n"
         "train: {batch_size: 60, epochs: 2}\n";
  const std::string config = folder / "wide.yaml";
  for (const bool fits : {false, true}) {
    const std::string capacity = fits ? "2MiB" : "1MiB";
    INFO(capacity);
    const nlohmann::json fit = fit_over({config, "--ranks", "2..4", "--capacity", capacity});
    CHECK(speaks_of_norms(fit));
    CHECK((fit["notes"].dump().find("parallel.sync_batchnorm=true") != std::string::npos) == fits);
    std::vector<std::string> shared = {"plan", config, "--capacity", capacity, "parallel.sync_batchnorm=true"};
    for (const nlohmann::json& word : fit["choices"][0]["set"]) shared.push_back(word);
    CHECK(answered(shared, fits ? 0 : 4)["fits"] == fits);
  }
}

TEST_CASE("fit over ranks of GPUs finds how much they exchange at a time, and how far ahead, as plans have it") {
  const FitFolder folder;
  const std::string config =
      folder.config("flatten, repeat: {times: 12, layers: [linear: {out: 4096}, relu]}, linear: {out: 8, name: head}",
                    "parallel: {shard: parameters, data: 16}\n");
  // So little that the model has to be shared as it is.
  const std::int64_t as_planned = answered({"plan", config, "--gpu", "h100"})["peak_reserved"];
  const std::vector<std::string> gpu = {
      config, "--gpu", "h100", "--ranks", "16", "--keep", "same-result", "--capacity", std::to_string(2 * as_planned)};
  const nlohmann::json choices = fit_over(gpu)["choices"];
  double as_it_is = 0, fastest = 1e9;
  std::set<std::string> keys;
  for (const nlohmann::json& choice : choices) {
    std::vector<std::string> words = {"plan", config, "--gpu", "h100"};
    for (const nlohmann::json& word : choice["set"]) {
      words.push_back(word);
      keys.insert(words.back().substr(0, words.back().find('=')));
    }
    INFO(choice["set"]);
    const nlohmann::json plan = answered(words);
    CHECK(plan["peak_reserved"] == choice["peak_reserved"]);
    // The plan waits for the slowest rank, and fit knows rank 0 alone.
    CHECK(plan["step_seconds"].get<double>() == Approx(choice["step_seconds"].get<double>()).epsilon(1e-3));
    if (choice["set"].empty()) as_it_is = choice["step_seconds"];
    fastest = std::min(fastest, choice["step_seconds"].get<double>());
  }
  REQUIRE(as_it_is > 0);
  CHECK(fastest < 0.95 * as_it_is);
  CHECK((keys.contains("parallel.prefetch") || keys.contains("parallel.bucket_size")));
}

TEST_CASE("what fit proposes for a stage of ranks of GPUs is of all stages where it is of ranks, and is planned") {
  const FitFolder folder;
  const std::string config =
      folder.config("flatten, repeat: {times: 8, layers: [linear: {out: 4096}, relu]}, linear: {out: 8, name: head}",
                    "stages: [{name: head, freeze: ['*', '!head']}, {name: all, unfreeze: all}]\n");
  const std::vector<std::string> words = {config, "train.batch_size=256", "--stage", "all", "--gpu", "h100", "--ranks"};
  for (const char* ranks : {"64", "32..64"}) {
    std::vector<std::string> fit_words = words;
    fit_words.emplace_back(ranks);
    const nlohmann::json choices = fit_over(fit_words)["choices"];
    std::set<std::string> keys;
    for (const nlohmann::json& choice : choices) {
      INFO(ranks << " " << choice["set"]);
      std::vector<std::string> plan_words = {"plan", config, "train.batch_size=256", "--stage", "all", "--gpu", "h100"};
      if (std::string(ranks) == "64") plan_words.emplace_back("parallel.data=64");
      for (const nlohmann::json& word : choice["set"]) {
        plan_words.push_back(word);
        keys.insert(plan_words.back().substr(0, plan_words.back().find('=')));
      }
      CHECK(answered(plan_words)["peak_reserved"] == choice["peak_reserved"]);
    }
    CHECK((keys.contains("parallel.shard") || keys.contains("parallel.overlap") ||
           keys.contains("parallel.bucket_size")));
  }
}

TEST_CASE("ranks of CPUs that share their cores are no faster than the cores are") {
  const FitFolder folder;
  const std::string config = folder.config(plain_layers);
  const auto seconds = [&](int num_ranks) {
    return answered({"plan", config, "--ranks", std::to_string(num_ranks)})["step_seconds"].get<double>();
  };
  cpu_set_t cores;
  REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
  const int num_cores = CPU_COUNT(&cores);
  CHECK(seconds(4 * num_cores) > 0.9 * seconds(1) / num_cores);
}

TEST_CASE("fit over ranks says which of what it proposes keeps the result") {
  const FitFolder folder;
  const std::string config = folder.config(
      "flatten, repeat: {times: 8, layers: [linear: {out: 4096}, batchnorm1d, relu]}, linear: {out: 8, name: head}",
      "parallel: {sync_batchnorm: false}\n");
  const std::vector<std::string> words = {"fit", config, "train.batch_size=300", "--gpu", "h100", "--ranks"};
  const auto told = [&](const char* ranks) {
    std::vector<std::string> all = words;
    all.emplace_back(ranks);
    const ProcessResult result = run_trainer(all);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK_THAT(told("4..8"), Contains("changes the result)") && Contains("As it is, of one process, it fits"));
  CHECK_THAT(told("1..8"), Contains("Paste the first, which keeps the result:") &&
                               Contains("Paste the fastest, which changes the result:") &&
                               !Contains("of one process, it fits"));
}

TEST_CASE("ranks draw the same dropout as one process, and fit over ranks says that the result stays") {
  const FitFolder folder;
  const std::string config = folder.config("flatten, linear: {out: 32}, relu, dropout: {p: 0.5}, linear: {out: 8}");
  const nlohmann::json fit = fit_over({config, "--ranks", "1..4", "--keep", "same-result", "--capacity", "64MiB"});
  REQUIRE(fit["searched_ranks"].size() == 3);
  for (const nlohmann::json& searched : fit["searched_ranks"]) {
    CHECK(searched["problem"].is_null());
    CHECK(searched["fits"] == true);
  }
}
