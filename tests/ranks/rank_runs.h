#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/ranks/rank_threads.h"
#include "tests/whole_runs/training_fixture.h"

// Whole runs of several ranks, each in a thread of its own, beside their plans.

namespace trainer {

/// What came of a run of one rank.
struct RankRun {
  RunStatus status = RunStatus::interrupted;
  std::vector<StepEvent> steps;
  std::vector<EvalEvent> evaluations;
  EndEvent end;
  std::string warnings;
  std::string mistake;  ///< what its plan does not say
};

inline void hold_against_plan(const TestRun& run, Device& device, RankRun& result) {
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
  bool accept_previous = false;
  std::int64_t interrupt_after = -1;  ///< a step, of the last rank alone
  int num_stages = 1;                 ///< of a pipeline of those ranks
  int num_tensor = 1;                 ///< of those ranks that share each layer
  std::function<void(LoadedData& data, int rank)> change_data = [](LoadedData&, int) {};
  std::function<std::unique_ptr<Device>(const RankLayout&)> make_device = [](const RankLayout&) {
    return make_cpu_device(1);
  };
};

inline std::vector<RankRun> run_ranks(int num_ranks, const std::string& yaml, const std::string& output,
                                      std::vector<std::string> overrides, const RankRunOptions& options = {}) {
  overrides.push_back("parallel.data=" + std::to_string(num_ranks / options.num_stages / options.num_tensor));
  overrides.push_back("parallel.tensor=" + std::to_string(options.num_tensor));
  overrides.push_back("parallel.pipeline=" + std::to_string(options.num_stages));
  const bool is_limited = std::any_of(overrides.begin(), overrides.end(),
                                      [](const std::string& each) { return each.starts_with("memory.limit="); });
  if (!is_limited) overrides.emplace_back("memory.limit=1GiB");
  std::vector<RankRun> results(static_cast<std::size_t>(num_ranks));
  on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
    TestRun run(yaml, output, overrides);
    run.experiment.parallel.rank = ranks.rank();
    options.change_data(run.data, ranks.rank());
    run.options.ranks = num_ranks > 1 ? &ranks : nullptr;
    run.options.resume = options.resume;
    run.options.accept_previous = options.accept_previous;
    run.events.interruption = &run.interruption;
    if (ranks.rank() + 1 == num_ranks) run.events.interrupt_after = options.interrupt_after;
    const std::unique_ptr<Device> device = options.make_device(rank_layout(run.experiment.parallel));
    if (num_ranks > 1) device->set_communicator(ranks);
    RankRun& result = results[static_cast<std::size_t>(ranks.rank())];
    result.status = run_training(run.experiment, run.data, *device, run.options, run.interruption, run.events);
    result.steps = run.events.steps;
    result.evaluations = run.events.evaluations;
    for (const WarningEvent& warning : run.events.warnings) result.warnings += warning.message + "\n";
    result.end = run.events.ends.back();
    if (!options.resume && options.interrupt_after < 0) hold_against_plan(run, *device, result);
  });
  return results;
}

struct RankCase {
  std::string name;
  std::string yaml;
  std::vector<std::string> overrides = {};
  double tolerance = 2e-5;
};

inline constexpr const char* all_shards[] = {"none", "optimizer", "gradients", "parameters"};

/// Everything but batch norms, whose statistics are of a rank's part by default.
inline constexpr const char* without_norms = R"(
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
/// Batch norms of images and of features, with ReLU, ReLU6, a residual sum and nothing behind them.
inline constexpr const char* norms_model = R"(
name: norms
seed: 11
data: {type: synthetic, shape: [6, 6, 2], classes: 4, samples: 45, validation_samples: 13}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual: {layers: [{conv2d: {out: 6, kernel: 3, padding: 1}}, batchnorm2d]}
    - relu
    - conv2d: {out: 5, kernel: 3}
    - batchnorm2d: {affine: false, momentum: 0.3}
    - relu6
    - flatten
    - linear: {out: 7}
    - batchnorm1d
    - linear: {out: 4, name: head}
optimizer: {type: sgd, lr: 0.02, momentum: 0.9}
train: {batch_size: 9, steps: 12, eval_every: 4}
)";
inline constexpr std::int64_t num_norms = 4;

inline constexpr const char* text_model = R"(
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
inline constexpr const char* numbers_model = R"(
name: ranks
seed: 3
data: {type: synthetic, shape: [5], target_type: numeric, samples: 20, validation_samples: 7}
loss: [{type: mse}, {type: l1, weight: 0.3}]
model: {layers: [{linear: {out: 7}}, tanh, {linear: {out: 1}}]}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 8, steps: 9, eval_every: 3}
)";

inline std::vector<RankCase> rank_cases() {
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

/// Of norms_model, for parallel.sync_batchnorm.
inline std::vector<RankCase> norm_cases() {
  return {
      {"norms", norms_model, {}, 1e-4},
      {"a last batch of fewer samples than ranks", norms_model, {"data.samples=38"}, 1e-4},
      {"accumulation", norms_model, {"train.accumulation_steps=3", "data.samples=38"}, 1e-4},
      {"recomputed", norms_model, {"memory.allocator=planned", "train.checkpointing=sqrt"}, 1e-4},
      {"averages", norms_model, {"average=ema", "average.decay=0.9"}, 1e-4},
      {"fp16", norms_model, {"train.amp=fp16", "train.loss_scale.initial=64"}, 2e-2},
      {"bf16", norms_model, {"train.amp=bf16", "parallel.shard=gradients"}, 1e-1},
  };
}

/// Of each step and evaluation, what all ranks have alike, and one process to rounding.
inline void check_against_one(const std::vector<RankRun>& ranks, const RankRun& one, double tolerance) {
  for (const RankRun& run : ranks) {
    CHECK(run.mistake == "");
    CHECK(run.status == RunStatus::done);
    REQUIRE(run.steps.size() == one.steps.size());
    REQUIRE(run.evaluations.size() == one.evaluations.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      CHECK(run.steps[i].loss == Approx(one.steps[i].loss).epsilon(tolerance));
      CHECK(run.steps[i].loss == ranks[0].steps[i].loss);
      CHECK(run.steps[i].samples == one.steps[i].samples);
    }
    for (std::size_t i = 0; i < one.evaluations.size(); ++i) {
      CHECK(run.evaluations[i].loss == Approx(one.evaluations[i].loss).epsilon(tolerance));
      CHECK(run.evaluations[i].loss == ranks[0].evaluations[i].loss);
      CHECK(run.evaluations[i].samples == one.evaluations[i].samples);
      CHECK(run.evaluations[i].accuracy == ranks[0].evaluations[i].accuracy);
      CHECK(run.evaluations[i].best == ranks[0].evaluations[i].best);
    }
  }
}

}  // namespace trainer
