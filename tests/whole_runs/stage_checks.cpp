#include "tests/whole_runs/stage_checks.h"

#include <catch2/catch.hpp>

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

/// Takes what a run of stages says of memory.
struct MemorySink : EventSink {
  std::vector<StageEvent> stages;
  std::vector<std::string> stage_of_step;
  std::vector<StepMemory> steps;
  std::vector<double> losses;
  std::vector<EndEvent> ends;

  void take(const Event& event) override {
    if (const auto* stage = std::get_if<StageEvent>(&event)) stages.push_back(*stage);
    if (const auto* end = std::get_if<EndEvent>(&event)) ends.push_back(*end);
    if (const auto* evaluation = std::get_if<EvalEvent>(&event)) losses.push_back(evaluation->loss);
    if (const auto* step = std::get_if<StepEvent>(&event)) {
      stage_of_step.emplace_back(step->stage);
      steps.push_back(step->memory.step);
      losses.push_back(step->loss);
    }
  }
};

std::vector<double> check_stages(const std::string& yaml, const std::string& file_name,
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
  std::size_t step = 0;
  for (std::size_t i = 0; i < experiment.stages.size(); ++i) {
    const Experiment& stage = *experiment.stages[i].experiment;
    const DataDescription data = describe_data(stage.data, stage.seed);
    const std::int64_t capacity = run_capacity(stage, data, device, /*dataset_is_loaded=*/true);
    const CompiledExperiment compiled = compile_experiment(stage, data, device, capacity);
    const MemoryPlan plan = plan_memory(compiled, capacity);
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
    if (i == 0) continue;
    REQUIRE(told.stages[i].purge.has_value());
    CHECK(told.stages[i].purge->reserved_before > 0);
    CHECK(told.stages[i].purge->reserved_after == 0);
    CHECK(told.stages[i].purge->allocated_after == 0);
  }
  CHECK(step == told.steps.size());
  return told.losses;
}

}  // namespace

std::vector<double> check_stages_of_images(Device& device) {
  std::string yaml = image_stages;
  yaml.replace(yaml.find('@'), 1, repository_folder);
  return check_stages(yaml, "test.yaml", {}, device);
}

std::vector<double> check_stages_of_features(Device& device) {
  const std::string folder = repository_folder + "/tests/golden/features";
  const std::string yaml =
      file_bytes(folder + "/config.yaml") +
      "stages: [{name: first, freeze: ['0'], train: {steps: 3}}, {name: all, unfreeze: all, optimizer: keep}]\n";
  return check_stages(yaml, folder + "/config.yaml",
                      {"loss.1.network.weights.file=" + folder + "/frozen.safetensors", "memory.limit=256MiB"}, device);
}

}  // namespace trainer
