#include <random>

#include "tests/ranks/deterministic_cases.h"
#include "tests/techniques/generated_experiments.h"

// Runs with parallel.deterministic, beside the same run on other numbers of ranks: bit by bit.

using namespace trainer;

TEST_CASE("deterministic runs have the same bits on 1, 2, 4 and 8 ranks, however they share the model",
          "[exhaustive]") {
  for (const RankCase& each : deterministic_cases()) {
    const OutputFolder folder;
    const std::vector<std::string> overrides = with_overrides(each.overrides, {"parallel.deterministic=true"});
    INFO(each.name);
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), overrides).front();
    CHECK(one.mistake == "");
    REQUIRE(one.status == RunStatus::done);
    const RankRun plain = run_ranks(1, each.yaml, folder.path("plain"), each.overrides).front();
    REQUIRE(plain.steps.size() == one.steps.size());
    // Statistics of batch norm are of parts.
    if (each.yaml != small_experiment)
      for (std::size_t i = 0; i < one.steps.size(); ++i)
        CHECK(one.steps[i].loss == Approx(plain.steps[i].loss).epsilon(std::max(each.tolerance, 2e-5)));
    for (const int num_ranks : {2, 4, 8}) {
      for (const char* shard : all_shards) {
        INFO(num_ranks << " ranks, " << shard);
        const std::string name = shard + std::to_string(num_ranks);
        const std::vector<RankRun> ranks =
            run_ranks(num_ranks, each.yaml, folder.path(name),
                      with_overrides(overrides, {std::string("parallel.shard=") + shard}));
        check_same_bits(ranks, one);
        check_same_files(folder, "one", name, one.steps.size());
      }
    }
  }
}

TEST_CASE(
    "a part is what a rank has: with as many ranks as parts a run has the same bits without being deterministic") {
  for (const RankCase& each :
       {RankCase{"images", without_norms, {"train.clip_norm=0"}},
        RankCase{"batch norm", small_experiment, {"train.accumulation_steps=1", "train.steps=20"}},
        RankCase{"text", text_model}, RankCase{"averages", without_norms, {"average=ema", "train.clip_norm=0"}}}) {
    const OutputFolder folder;
    for (const int num_ranks : {2, 4}) {
      INFO(each.name << ", " << num_ranks);
      const std::string n = std::to_string(num_ranks);
      const RankRun plain = run_ranks(num_ranks, each.yaml, folder.path("plain" + n), each.overrides).front();
      const std::vector<std::string> overrides =
          with_overrides(each.overrides, {"parallel.deterministic=true", "parallel.parts=" + n});
      check_same_bits(run_ranks(1, each.yaml, folder.path("one" + n), overrides), plain);
      check_same_files(folder, "plain" + n, "one" + n, plain.steps.size());
    }
  }
}

TEST_CASE("a deterministic run goes on with another number of ranks bit by bit") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"train.steps=12", "parallel.deterministic=true"};
  const RankRun whole = run_ranks(1, without_norms, folder.path("whole"), overrides).front();
  struct Change {
    int from, to;
    const char* shard;  // of both
  };
  for (const auto& [from, to, shard] : {Change{2, 1, "none"}, Change{1, 4, "none"}, Change{8, 2, "optimizer"},
                                        Change{4, 8, "gradients"}, Change{2, 4, "parameters"}}) {
    const std::string name = std::to_string(from) + " to " + std::to_string(to) + shard;
    const std::vector<std::string> shared = with_overrides(overrides, {std::string("parallel.shard=") + shard});
    run_ranks(from, without_norms, folder.path(name), shared, {.interrupt_after = 6});
    const std::vector<RankRun> resumed = run_ranks(to, without_norms, folder.path(name), shared, {.resume = true});
    CHECK(resumed[0].warnings == "");
    for (const StepEvent& step : resumed[0].steps)
      CHECK(step.loss == whole.steps[static_cast<std::size_t>(step.step) - 1].loss);
    check_same_files(folder, "whole", name, whole.steps.size());
  }
}

TEST_CASE("whatever a network is made of, it has the same bits on other numbers of ranks") {
  std::mt19937 random(20261128);
  int num_run = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string yaml = generated_whole_network(random);
    const int num_ranks = 2 << random() % 2;
    const std::string shard = all_shards[random() % std::size(all_shards)];
    const OutputFolder folder;
    const std::vector<std::string> overrides = {"memory.update=at_end", "parallel.deterministic=true",
                                                "parallel.parts=" + std::to_string(4 << random() % 2)};
    INFO("network " << i << ", " << num_ranks << " ranks, shard: " << shard << "\n" << yaml);
    try {
      const RankRun one = run_ranks(1, yaml, folder.path("one"), overrides).front();
      CHECK(one.mistake == "");
      check_same_bits(
          run_ranks(num_ranks, yaml, folder.path("run"), with_overrides(overrides, {"parallel.shard=" + shard})), one);
      check_same_files(folder, "one", "run", one.steps.size());
    } catch (const ConfigError&) {  // a batch of fewer samples than ranks, a norm over one sample
      continue;
    }
    ++num_run;
  }
  CHECK(num_run > 15);
}
