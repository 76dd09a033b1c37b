#include "tests/whole_runs/stage_checks.h"

#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "engine/memory/cached_segments.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

const std::string repository_folder = TRAINER_SOURCE_DIR;

constexpr const char* image_stages = R"(
name: tutorial
seed: 3
data:
  type: image_folder
  root: @/tests/datasets/digit_images/images
  split: 0.2
  channels: 1
  size: 8
  transforms: {train: [random_resized_crop: {scale: [0.5, 1]}, flip], validation: [resize, center_crop]}
model: {file: models/resnet.yaml, with: {depth: 18, width: 4, classes: 10, stem: cifar}}
optimizer: {type: adamw, lr: 0.002, weight_decay: 0.01}
train: {batch_size: 16, steps: 3, eval_every: 2}
memory: {limit: 256MiB}
stages:
  - {name: head, freeze: {to: head}, freeze_norms: on}
  - name: finetune
    unfreeze: all
    optimizer: {lr: {slice: [2.0e-5, 2.0e-3]}}
    schedule: {type: one_cycle, momentum: [0.85, 0.95]}
  - {name: larger, data: {size: 16}, train: {batch_size: 8}}
)";

/// Blocks of both pools, more and fewer of them from stage to stage.
constexpr const char* cached_stages = R"(
name: cached
seed: 5
data: {type: synthetic, shape: [32, 32, 3], classes: 4, samples: 400, validation_samples: 20}
model:
  groups: {body: rest, head: [head]}
  layers:
    - conv2d: {out: 16, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 24, kernel: 1}
    - relu
    - flatten
    - linear: {out: 4, name: head}
optimizer: {type: adam, lr: 0.002}
train: {batch_size: 170, steps: 3, eval_every: 2}
memory: {limit: 256MiB, allocator: caching}
checkpoint: {keep: 1}
stages:
  - {name: first}
  - {name: smaller, purge: false, freeze: {to: head}, train: {batch_size: 8}}
  - {name: larger, purge: false, unfreeze: all, train: {batch_size: 250}}
  - {name: anew, train: {batch_size: 16}}
  - {name: last, purge: false, train: {batch_size: 100, accumulation_steps: 2}, optimizer: {type: sgd, lr: 0.01}}
)";

/// Takes what a run of stages says of memory.
struct MemorySink : DescribedSink {
  std::vector<StageEvent> stages;
  std::vector<std::string> stage_of_step;
  std::vector<StepMemory> steps;
  std::vector<std::int64_t> retries;  ///< by stage, as its last step or evaluation says
  std::vector<double> losses;
  std::vector<EndEvent> ends;

  void take(const Event& event) override {
    DescribedSink::take(event);
    if (const auto* stage = std::get_if<StageEvent>(&event)) {
      stages.push_back(*stage);
      retries.push_back(0);
    }
    if (const auto* end = std::get_if<EndEvent>(&event)) ends.push_back(*end);
    if (const auto* evaluation = std::get_if<EvalEvent>(&event)) {
      losses.push_back(evaluation->loss);
      retries.back() = evaluation->memory.num_alloc_retries;
    }
    if (const auto* step = std::get_if<StepEvent>(&event)) {
      stage_of_step.emplace_back(step->stage);
      steps.push_back(step->memory.step);
      losses.push_back(step->loss);
      retries.back() = step->memory.num_alloc_retries;
    }
  }
};

struct CheckedStages {
  std::vector<double> losses;
  std::string saved;                         ///< the weights and the optimizer's state, in the end
  std::vector<std::int64_t> peaks, retries;  ///< by stage
  std::vector<std::int64_t> kept;            ///< what each begins with
};

CheckedStages check_stages(const std::string& yaml, const std::string& file_name,
                           const std::vector<std::string>& overrides, Device& device) {
  const OutputFolder folder;
  std::vector<std::string> all = overrides;
  all.push_back("output=" + folder.path("run"));
  const Experiment experiment = parse_experiment(yaml, file_name, all);
  MemorySink told;
  Interruption interruption;
  TrainingOptions options;
  options.trainer_version = "test";
  REQUIRE(run_training(experiment, load_data(experiment.data, experiment.seed), device, options, interruption, told) ==
          RunStatus::done);
  REQUIRE(told.stages.size() == experiment.stages.size());
  REQUIRE(told.ends.size() == 1);
  CheckedStages checked{.losses = told.losses, .saved = {}, .peaks = {}, .retries = told.retries, .kept = {}};
  std::size_t step = 0;
  std::shared_ptr<const CachedSegments> left;
  for (std::size_t i = 0; i < experiment.stages.size(); ++i) {
    Experiment stage = *experiment.stages[i].experiment;
    if (!experiment.stages[i].purge) stage.memory.kept = left;
    const DataDescription data = describe_data(stage.data, stage.seed);
    const std::int64_t capacity = run_capacity(stage, data, device, /*dataset_is_loaded=*/true);
    const CompiledExperiment compiled = compile_experiment(stage, data, device, capacity);
    const MemoryPlan plan = plan_memory(compiled, capacity);
    checked.kept.push_back(compiled.experiment.memory.kept ? left->num_bytes() : 0);
    REQUIRE(plan.fits);
    for (std::int64_t number = 1; number <= compiled.schedule.total_steps(); ++number, ++step) {
      INFO("stage " << stage.stage << ", step " << number);
      REQUIRE(step < told.steps.size());
      CHECK(told.stage_of_step[step] == stage.stage);
      const StepMemory* const planned = plan.find(number, false);
      REQUIRE(planned != nullptr);
      CHECK(told.steps[step] == *planned);
    }
    CHECK(told.ends.front().stages[i].peak_reserved == plan.peak_reserved);
    CHECK(told.stages[i].planned_peak_reserved == plan.peak_reserved);
    CHECK(told.retries[i] == plan.num_alloc_retries);
    checked.peaks.push_back(plan.peak_reserved);
    left = plan.left_cached;
    if (i == 0) continue;
    REQUIRE(told.stages[i].purge.has_value());
    CHECK(told.stages[i].purge->reserved_before > 0);
    CHECK(told.stages[i].purge->reserved_after == checked.kept.back());
    CHECK(told.stages[i].purge->allocated_after == 0);
  }
  CHECK(step == told.steps.size());
  const int last_step = static_cast<int>(told.steps.size());
  for (const char* const name : {"model.safetensors", "optimizer.safetensors"})
    checked.saved += file_bytes(checkpoint_file(folder.path("run"), last_step, name));
  return checked;
}

}  // namespace

std::vector<double> check_stages_of_images(Device& device) {
  std::string yaml = image_stages;
  yaml.replace(yaml.find('@'), 1, repository_folder);
  return check_stages(yaml, "test.yaml", {}, device).losses;
}

std::vector<double> check_stages_of_features(Device& device) {
  const std::string folder = repository_folder + "/tests/golden/features";
  const std::string yaml =
      file_bytes(folder + "/config.yaml") +
      "stages: [{name: first, freeze: ['0'], train: {steps: 3}}, {name: all, unfreeze: all, optimizer: keep}]\n";
  return check_stages(yaml, folder + "/config.yaml",
                      {"loss.1.network.weights.file=" + folder + "/frozen.safetensors", "memory.limit=256MiB"}, device)
      .losses;
}

void check_stages_in_one_cache(Device& device) {
  const auto run = [&](std::vector<std::string> overrides) {
    return check_stages(cached_stages, "test.yaml", overrides, device);
  };
  const auto purged = [&](std::vector<std::string> overrides) {
    for (const char* const stage : {"1", "2", "4"}) overrides.push_back(fmt::format("stages.{}.purge=true", stage));
    return run(overrides);
  };
  const CheckedStages reference = purged({});
  for (const bool expands : {false, true}) {
    INFO("expandable " << expands);
    const std::vector<std::string> overrides = {fmt::format("memory.expandable_segments={}", expands)};
    const CheckedStages one = run(overrides), other = expands ? purged(overrides) : reference;
    CHECK(one.losses == reference.losses);
    CHECK((one.saved == reference.saved));
    // What the smaller stage needs not stays reserved; the larger one asks for what is missing.
    CHECK(one.kept[1] > other.peaks[1]);
    CHECK(one.peaks[1] == one.kept[1]);
    CHECK(one.peaks[2] > one.kept[2]);
    CHECK((one.kept[3] == 0 && one.peaks[3] == other.peaks[3]));
    CHECK(one.kept[4] > 0);
  }
  // Where the largest stage has no more than it needs alone, the cache goes back before memory runs out.
  const CheckedStages tight = run({fmt::format("memory.limit={}", reference.peaks[2])});
  CHECK((tight.saved == reference.saved));
  CHECK(tight.retries[2] > 0);
}

}  // namespace trainer
