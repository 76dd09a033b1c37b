#include "tests/whole_runs/offload_checks.h"

#include "engine/program/compile.h"
#include "engine/program/offload.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

// An image of 64 KiB a batch of 16 in each layer, and of less in the odd last batch of 8.
constexpr const char* deep_network = R"(
name: deep
seed: 11
data: {type: synthetic, shape: [16, 16, 4], classes: 3, samples: 40, validation_samples: 10}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1}
    - tanh
    - conv2d: {out: 8, kernel: 3, padding: 1}
    - batchnorm2d
    - silu
    - residual: {layers: [{conv2d: {out: 8, kernel: 3, padding: 1}}, gelu]}
    - conv2d: {out: 8, kernel: 1}
    - tanh
    - conv2d: {out: 1, kernel: 1}
    - dropout: {p: 0.1}
    - flatten
    - linear: {out: 3}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 16, steps: 9, eval_every: 4, eval_batch_size: 10}
)";

std::vector<StepMemory> planned_steps(const TestRun& run, Device& device) {
  const Program program = compile(run.experiment, run.data.description, device);
  CHECK((offload_bytes(program) > 0) == !run.experiment.memory.offload.empty());
  const RunSchedule schedule(run.experiment, run.data.description);
  const MemoryPlan plan = make_memory_plan(program, schedule, unlimited_capacity);
  std::vector<StepMemory> steps;
  for (std::int64_t step = 1; step <= schedule.total_steps(); ++step) steps.push_back(*plan.find(step, false));
  return steps;
}

void check_same_numbers(const TestRun& one, const TestRun& other) {
  REQUIRE(one.events.steps.size() == other.events.steps.size());
  for (std::size_t i = 0; i < one.events.steps.size(); ++i)
    CHECK(one.events.steps[i].loss == other.events.steps[i].loss);
  REQUIRE(one.events.evaluations.size() == other.events.evaluations.size());
  for (std::size_t i = 0; i < one.events.evaluations.size(); ++i)
    CHECK(one.events.evaluations[i].loss == other.events.evaluations[i].loss);
}

}  // namespace

void check_offloaded_runs(Device& device) {
  const std::vector<std::vector<std::string>> variants = {
      {}, {"train.accumulation_steps=2"}, {"memory.recompute_cheap=false", "memory.in_place=false"}};
  for (const std::vector<std::string>& overrides : variants) {
    INFO((overrides.empty() ? "" : overrides[0]));
    const OutputFolder folder;
    TestRun kept(deep_network, folder.path("kept"), overrides);
    TestRun away(deep_network, folder.path("away"), overrides);
    away.experiment.memory.offload = {"*"};
    REQUIRE(kept(device) == RunStatus::done);
    REQUIRE(away(device) == RunStatus::done);
    check_same_numbers(kept, away);
    CHECK(same_file(folder, "kept", "away", 9, "model.safetensors"));

    const std::vector<StepMemory> planned_kept = planned_steps(kept, device);
    const std::vector<StepMemory> planned_away = planned_steps(away, device);
    REQUIRE(planned_away.size() == away.events.steps.size());
    for (std::size_t i = 0; i < planned_away.size(); ++i) {
      INFO("step " << i + 1);
      CHECK(planned_away[i] == away.events.steps[i].memory.step);
      CHECK(planned_away[i].peak_requested < planned_kept[i].peak_requested);
    }
    const PassCounts& passes = away.events.ends.at(0).passes;
    if (passes.can_replay) {
      CHECK(passes.obstacle.empty());
      CHECK(passes.replayed > 0);
      CHECK(passes.replayed + passes.moved == passes.total);
    }
  }
}

}  // namespace trainer
