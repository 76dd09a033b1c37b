#include <random>

#include "tests/ranks/rank_runs.h"
#include "tests/techniques/generated_experiments.h"

// Whole runs of several ranks, beside the same run of one process and beside their plans.

using namespace trainer;

namespace {

constexpr const char* shards[] = {"none", "optimizer", "gradients", "parameters"};

/// Gradients of more than a bucket, and parts that some ranks lack.
constexpr const char* wide_model = R"(
name: ranks
seed: 5
data: {type: synthetic, shape: [40], classes: 10, samples: 61, validation_samples: 9}
model: {layers: [{linear: {out: 900}}, relu, {linear: {out: 700}}, relu, {linear: {out: 10}}]}
optimizer: {type: adam, lr: 0.001}
train: {batch_size: 16, steps: 8, eval_every: 4}
)";

}  // namespace

TEST_CASE("several ranks train as one process does, to rounding, and each holds what its plan says") {
  for (const RankCase& each : rank_cases()) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    for (const int num_ranks : {2, 3, 4, 8}) {
      INFO(each.name << ", " << num_ranks << " ranks");
      const std::vector<RankRun> ranks =
          run_ranks(num_ranks, each.yaml, folder.path(std::to_string(num_ranks)), each.overrides);
      check_against_one(ranks, one, each.tolerance);
    }
  }
}

TEST_CASE("ranks that share a model train as ranks that each hold it, bit by bit where no norm is taken, in its plan") {
  const std::vector<std::string> unclipped = {"train.clip_norm=0"};
  std::vector<RankCase> cases = rank_cases();
  for (RankCase& each : cases)
    if (each.yaml == without_norms && each.overrides.size() % 2 == 0)
      each.overrides.insert(each.overrides.end(), unclipped.begin(), unclipped.end());
  cases.push_back({"frozen layers", without_norms, {"freeze=['0']", "train.amp=bf16"}, 3e-2});
  cases.push_back({"16-bit weights", without_norms, {"train.amp=bf16", "memory.master_weights=false"}, 1});
  cases.push_back({"averages of 16 bit, accumulated",
                   without_norms,
                   {"average=ema", "average.decay=0.9", "train.amp=bf16", "train.accumulation_steps=2"},
                   3e-2});
  cases.push_back({"several buckets", wide_model});
  for (const RankCase& each : cases) {
    const OutputFolder folder;
    const bool is_clipped = std::count(each.overrides.begin(), each.overrides.end(), "train.clip_norm=0") == 0 &&
                            each.yaml == without_norms;
    for (const int num_ranks : {2, 3, 8}) {
      const std::string n = std::to_string(num_ranks);
      const std::vector<RankRun> whole = run_ranks(num_ranks, each.yaml, folder.path("none" + n), each.overrides);
      for (const char* shard : {"optimizer", "gradients", "parameters"}) {
        INFO(each.name << ", " << num_ranks << " ranks, " << shard);
        std::vector<std::string> overrides = each.overrides;
        overrides.push_back(std::string("parallel.shard=") + shard);
        const std::vector<RankRun> ranks = run_ranks(num_ranks, each.yaml, folder.path(shard + n), overrides);
        // Micro-batches are summed before they are added up, or behind; norms of parts are added up in another order.
        const bool adds_elsewhere = each.name == "accumulation" || each.name == "averages of 16 bit, accumulated";
        const bool is_exact = !is_clipped && (!adds_elsewhere || shard == std::string("optimizer"));
        for (const RankRun& run : ranks) {
          CHECK(run.mistake == "");
          CHECK(run.status == RunStatus::done);
          REQUIRE(run.steps.size() == whole[0].steps.size());
          REQUIRE(run.evaluations.size() == whole[0].evaluations.size());
          for (std::size_t i = 0; i < run.steps.size(); ++i) {
            CHECK(run.steps[i].loss == ranks[0].steps[i].loss);
            if (is_exact)
              CHECK(run.steps[i].loss == whole[0].steps[i].loss);
            else
              CHECK(run.steps[i].loss == Approx(whole[0].steps[i].loss).epsilon(each.tolerance));
          }
          for (std::size_t i = 0; i < run.evaluations.size(); ++i) {
            CHECK(run.evaluations[i].loss == ranks[0].evaluations[i].loss);
            if (is_exact)
              CHECK(run.evaluations[i].loss == whole[0].evaluations[i].loss);
            else
              CHECK(run.evaluations[i].loss == Approx(whole[0].evaluations[i].loss).epsilon(each.tolerance));
            CHECK(run.evaluations[i].samples == whole[0].evaluations[i].samples);
          }
        }
        if (!is_exact) continue;
        for (const char* file : {"model.safetensors", "optimizer.safetensors"})
          CHECK(same_file(folder, "none" + n, shard + n, static_cast<int>(whole[0].steps.size()), file));
      }
    }
  }
}

TEST_CASE("whatever a network is made of, each rank holds what its plan says, and all end with one loss") {
  std::mt19937 random(20261127);
  int num_run = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string yaml = generated_whole_network(random);
    const int num_ranks = 2 + static_cast<int>(random() % 2);
    const std::string shard = shards[random() % std::size(shards)];
    const OutputFolder folder;
    std::vector<RankRun> ranks;
    try {
      ranks = run_ranks(num_ranks, yaml, folder.path("run"),
                        {"memory.update=at_end", "parallel.shard=" + shard,
                         std::string("parallel.sync_batchnorm=") + (i % 2 == 0 ? "true" : "false")});
    } catch (const ConfigError&) {  // a batch of fewer samples than ranks, a norm over one sample
      continue;
    }
    ++num_run;
    INFO("network " << i << ", " << num_ranks << " ranks, shard: " << shard << "\n" << yaml);
    for (const RankRun& run : ranks) {
      CHECK(run.mistake == "");
      CHECK(run.status == RunStatus::done);
      REQUIRE(run.steps.size() == ranks[0].steps.size());
      for (std::size_t step = 0; step < run.steps.size(); ++step)
        CHECK(run.steps[step].loss == ranks[0].steps[step].loss);
    }
  }
  CHECK(num_run > 25);
}

TEST_CASE("runs of several ranks give the same bits again, and go on from a checkpoint as if nothing had been") {
  const OutputFolder folder;
  for (const auto& [num_ranks, shard] : {std::pair{2, "none"}, std::pair{3, "none"}, std::pair{3, "optimizer"},
                                         std::pair{2, "gradients"}, std::pair{3, "parameters"}}) {
    const std::vector<std::string> with_norms = {"train.steps=16", "checkpoint.every=6",
                                                 std::string("parallel.shard=") + shard};
    const std::string n = std::to_string(num_ranks) + shard;
    run_ranks(num_ranks, small_experiment, folder.path("a" + n), with_norms);
    run_ranks(num_ranks, small_experiment, folder.path("b" + n), with_norms);
    const std::vector<RankRun> stopped =
        run_ranks(num_ranks, small_experiment, folder.path("c" + n), with_norms, {.interrupt_after = 7});
    for (const RankRun& run : stopped) CHECK(run.status == RunStatus::interrupted);
    const std::vector<RankRun> resumed =
        run_ranks(num_ranks, small_experiment, folder.path("c" + n), with_norms, {.resume = true});
    for (const RankRun& run : resumed) CHECK(run.status == RunStatus::done);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      CHECK(same_file(folder, "a" + n, "b" + n, 16, file));
      CHECK(same_file(folder, "a" + n, "c" + n, 16, file));
    }
  }
}

TEST_CASE("a run goes on with another number of ranks, no sample skipped or repeated") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"train.steps=12"};
  const RankRun whole = run_ranks(1, without_norms, folder.path("whole"), overrides).front();
  struct Change {
    int from, to;
    std::string shard;  // of both
  };
  for (const auto& [from, to, shard] : {Change{2, 1, "none"}, Change{1, 3, "none"}, Change{4, 3, "optimizer"},
                                        Change{3, 1, "gradients"}, Change{2, 8, "parameters"}}) {
    const std::string name = std::to_string(from) + " to " + std::to_string(to) + shard;
    std::vector<std::string> shared = overrides;
    shared.push_back("parallel.shard=" + shard);
    const std::vector<RankRun> begun =
        run_ranks(from, without_norms, folder.path(name), shared, {.interrupt_after = 6});
    const std::vector<RankRun> resumed = run_ranks(to, without_norms, folder.path(name), shared, {.resume = true});
    CHECK(begun[0].steps.size() + resumed[0].steps.size() == whole.steps.size());
    CHECK_THAT(resumed[0].warnings, Catch::Contains("sums are rounded in another order"));
    for (const StepEvent& step : resumed[0].steps)
      CHECK(step.loss == Approx(whole.steps[static_cast<std::size_t>(step.step) - 1].loss).epsilon(2e-5));
  }
}
