#include <random>

#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/ranks/rank_threads.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/whole_runs/training_fixture.h"

// Whole runs of several ranks, beside the same run of one process and beside their plans.

using namespace trainer;

namespace {

/// What came of a run of one rank.
struct RankRun {
  RunStatus status = RunStatus::interrupted;
  std::vector<StepEvent> steps;
  std::vector<EvalEvent> evaluations;
  EndEvent end;
  std::string mistake;  ///< what its plan does not say
};

void hold_against_plan(const TestRun& run, Device& device, RankRun& result) {
  const DataDescription& data = run.data.description;
  const Program program = compile(run.experiment, data, device);
  const MemoryPlan plan = make_memory_plan(program, RunSchedule(run.experiment, data), std::int64_t{1} << 30,
                                           allocator_options(run.experiment));
  const auto is_planned = [&](std::int64_t step, bool evaluation, const StepMemory& memory) {
    const StepMemory* const planned = plan.find(step, evaluation);
    return planned != nullptr && *planned == memory;
  };
  for (const StepEvent& event : run.events.steps)
    if (!is_planned(event.step, false, event.memory.step)) result.mistake += " step " + std::to_string(event.step);
  for (const EvalEvent& event : run.events.evaluations)
    if (!is_planned(event.step, true, event.memory.step)) result.mistake += " evaluation " + std::to_string(event.step);
  const EndEvent& end = run.events.ends.back();
  if (end.peak_allocated != plan.peak_allocated || end.peak_reserved != plan.peak_reserved) result.mistake += " peak";
}

struct RankRunOptions {
  bool resume = false;
  std::int64_t interrupt_after = -1;  ///< a step, of the last rank alone
};

std::vector<RankRun> run_ranks(int num_ranks, const std::string& yaml, const std::string& output,
                               std::vector<std::string> overrides, const RankRunOptions& options = {}) {
  overrides.push_back("parallel.data=" + std::to_string(num_ranks));
  overrides.emplace_back("memory.limit=1GiB");
  std::vector<RankRun> results(static_cast<std::size_t>(num_ranks));
  on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
    TestRun run(yaml, output, overrides);
    run.experiment.parallel.rank = ranks.rank();
    run.options.ranks = num_ranks > 1 ? &ranks : nullptr;
    run.options.resume = options.resume;
    run.events.interruption = &run.interruption;
    if (ranks.rank() + 1 == num_ranks) run.events.interrupt_after = options.interrupt_after;
    const std::unique_ptr<Device> device = make_cpu_device(1);
    if (num_ranks > 1) device->set_communicator(ranks);
    RankRun& result = results[static_cast<std::size_t>(ranks.rank())];
    result.status = run_training(run.experiment, run.data, *device, run.options, run.interruption, run.events);
    result.steps = run.events.steps;
    result.evaluations = run.events.evaluations;
    result.end = run.events.ends.back();
    if (!options.resume && options.interrupt_after < 0) hold_against_plan(run, *device, result);
  });
  return results;
}

constexpr const char* shards[] = {"none", "optimizer", "gradients", "parameters"};

struct Case {
  std::string name;
  std::string yaml;
  std::vector<std::string> overrides = {};
  double tolerance = 2e-5;
};

/// Everything but batch norms, whose statistics are of a rank's part.
constexpr const char* without_norms = R"(
name: ranks
seed: 7
data: {type: synthetic, shape: [6, 6, 2], classes: 4, samples: 45, validation_samples: 13}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - relu
    - dropout: {p: 0.25}
    - flatten
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.01}
schedule: {type: cosine, warmup_steps: 3}
train: {batch_size: 9, steps: 12, eval_every: 4, clip_norm: 1}
)";
constexpr const char* text_model = R"(
name: ranks
seed: 3
data: {type: synthetic, samples: 19, sequence_length: 6, classes: 24, validation_samples: 5}
loss: {type: cross_entropy, label_smoothing: 0.1}
model:
  layers:
    - embedding: {num: 24, dim: 16, name: wte}
    - residual: {layers: [layernorm, {linear: {out: 48}}, {attention: {heads: 4, causal: true, dropout: 0.2}}, {linear: {out: 16}}]}
    - layernorm
    - linear: {out: 24, bias: false}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, steps: 9, eval_every: 3}
)";
constexpr const char* numbers_model = R"(
name: ranks
seed: 3
data: {type: synthetic, shape: [5], target_type: numeric, samples: 20, validation_samples: 7}
loss: [{type: mse}, {type: l1, weight: 0.3}]
model: {layers: [{linear: {out: 7}}, tanh, {linear: {out: 1}}]}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 8, steps: 9, eval_every: 3}
)";

/// Gradients of more than a bucket, and parts that some ranks lack.
constexpr const char* wide_model = R"(
name: ranks
seed: 5
data: {type: synthetic, shape: [40], classes: 10, samples: 61, validation_samples: 9}
model: {layers: [{linear: {out: 900}}, relu, {linear: {out: 700}}, relu, {linear: {out: 10}}]}
optimizer: {type: adam, lr: 0.001}
train: {batch_size: 16, steps: 8, eval_every: 4}
)";

std::vector<Case> all_cases() {
  return {
      {"images", without_norms},
      {"a last batch of fewer samples than ranks", without_norms, {"data.samples=38", "data.validation_samples=10"}},
      {"accumulation", without_norms, {"train.accumulation_steps=3", "data.samples=40"}},
      {"planned places", without_norms, {"memory.allocator=planned", "train.checkpointing=sqrt"}},
      {"class weights", without_norms, {"loss={type: cross_entropy, class_weights: [1, 2, 0.5, 3]}"}},
      {"averages", without_norms, {"average=ema", "average.decay=0.9"}},
      {"fp16", without_norms, {"train.amp=fp16", "train.loss_scale.initial=64"}, 5e-3},
      {"bf16 with gradients of 16 bit", without_norms, {"train.amp=bf16", "memory.gradients=16bit"}, 3e-2},
      {"8-bit moments", without_norms, {"memory.moments=8bit"}, 2e-3},
      {"text", text_model},
      {"text, its loss in chunks, some offloaded", text_model, {"memory.chunked_loss=2", "memory.offload=['*']"}},
      {"numbers, a loss of two terms", numbers_model},
  };
}

}  // namespace

TEST_CASE("several ranks train as one process does, to rounding, and each holds what its plan says") {
  for (const Case& each : all_cases()) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    for (const int num_ranks : {2, 3, 4, 8}) {
      INFO(each.name << ", " << num_ranks << " ranks");
      const std::vector<RankRun> ranks =
          run_ranks(num_ranks, each.yaml, folder.path(std::to_string(num_ranks)), each.overrides);
      for (const RankRun& run : ranks) {
        CHECK(run.mistake == "");
        CHECK(run.status == RunStatus::done);
        REQUIRE(run.steps.size() == one.steps.size());
        REQUIRE(run.evaluations.size() == one.evaluations.size());
        for (std::size_t i = 0; i < one.steps.size(); ++i) {
          CHECK(run.steps[i].loss == Approx(one.steps[i].loss).epsilon(each.tolerance));
          CHECK(run.steps[i].loss == ranks[0].steps[i].loss);
          CHECK(run.steps[i].samples == one.steps[i].samples);
        }
        for (std::size_t i = 0; i < one.evaluations.size(); ++i) {
          CHECK(run.evaluations[i].loss == Approx(one.evaluations[i].loss).epsilon(each.tolerance));
          CHECK(run.evaluations[i].loss == ranks[0].evaluations[i].loss);
          CHECK(run.evaluations[i].samples == one.evaluations[i].samples);
          CHECK(run.evaluations[i].accuracy == ranks[0].evaluations[i].accuracy);
          CHECK(run.evaluations[i].best == ranks[0].evaluations[i].best);
        }
      }
    }
  }
}

TEST_CASE("ranks that share a model train as ranks that each hold it, bit by bit where no norm is taken, in its plan") {
  const std::vector<std::string> unclipped = {"train.clip_norm=0"};
  std::vector<Case> cases = all_cases();
  for (Case& each : cases)
    if (each.yaml == without_norms && each.overrides.size() % 2 == 0)
      each.overrides.insert(each.overrides.end(), unclipped.begin(), unclipped.end());
  cases.push_back({"frozen layers", without_norms, {"freeze=['0']", "train.amp=bf16"}, 3e-2});
  cases.push_back({"16-bit weights", without_norms, {"train.amp=bf16", "memory.master_weights=false"}, 1});
  cases.push_back({"averages of 16 bit, accumulated",
                   without_norms,
                   {"average=ema", "average.decay=0.9", "train.amp=bf16", "train.accumulation_steps=2"},
                   3e-2});
  cases.push_back({"several buckets", wide_model});
  for (const Case& each : cases) {
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
      ranks = run_ranks(num_ranks, yaml, folder.path("run"), {"memory.update=at_end", "parallel.shard=" + shard});
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
    for (const StepEvent& step : resumed[0].steps)
      CHECK(step.loss == Approx(whole.steps[static_cast<std::size_t>(step.step) - 1].loss).epsilon(2e-5));
  }
}
