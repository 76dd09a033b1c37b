#include "tests/whole_runs/statistics_run_checks.h"

#include "engine/plan/allocator_options.h"
#include "engine/plan/capacity.h"
#include "engine/program/compile.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

using Settings = std::vector<std::string>;

// 1280 pixels of each channel in a batch of 20, above what batch norm does in one launch, and 1088 in the odd last one.
constexpr const char* resnet = R"(
name: statistics
seed: 5
data: {type: synthetic, shape: [8, 8, 3], classes: 4, samples: 57, validation_samples: 9}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual: {layers: [conv2d: {out: 8, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu, conv2d: {out: 8, kernel: 3, padding: 1, bias: false}, batchnorm2d]}
    - relu
    - residual:
        layers: [conv2d: {out: 16, kernel: 3, padding: 1, bias: false}, {batchnorm2d: {affine: false}}]
        shortcut: [conv2d: {out: 16, kernel: 1, bias: false}, batchnorm2d]
    - relu
    - conv2d: {out: 8, kernel: 1}
    - batchnorm2d
    - global_avgpool
    - linear: {out: 4}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 20, steps: 6, amp: fp16}
)";

std::unique_ptr<TestRun> train(Device& device, const OutputFolder& folder, const std::string& name,
                               const Settings& set) {
  auto run = std::make_unique<TestRun>(resnet, folder.path(name), set);
  REQUIRE((*run)(device) == RunStatus::done);
  return run;
}

void check_plan(const TestRun& run, Device& device) {
  const DataDescription& data = run.data.description;
  const MemoryPlan plan = make_memory_plan(compile(run.experiment, data, device), RunSchedule(run.experiment, data),
                                           run_capacity(run.experiment, run.data.description, device, true),
                                           allocator_options(run.experiment));
  REQUIRE(plan.fits);
  for (const StepEvent& event : run.events.steps) {
    const StepMemory* const planned = plan.find(event.step, false);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  const EndEvent& end = run.events.ends.at(0);
  CHECK(end.peak_allocated == plan.peak_allocated);
  CHECK(end.peak_reserved == plan.peak_reserved);
}

int num_with_statistics(const TestRun& run, const DeviceModel& device) {
  const Program program = compile(run.experiment, run.data.description, device);
  int count = 0;
  for (const Instruction& instruction : program.micro_batches[0].first.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    const OpCall& call = program.calls[static_cast<std::size_t>(instruction.index)];
    const auto* const attributes = std::get_if<Conv2dAttributes>(&call.op.attributes);
    count += call.phase == Phase::forward && attributes != nullptr && attributes->statistics ? 1 : 0;
  }
  return count;
}

}  // namespace

int check_runs_with_statistics(Device& device) {
  const OutputFolder folder;
  const auto plain = train(device, folder, "plain", {});
  check_plan(*plain, device);
  TestRun on_cpu(resnet, folder.path("cpu"));
  REQUIRE(on_cpu() == RunStatus::done);
  REQUIRE(plain->events.steps.size() == on_cpu.events.steps.size());
  for (std::size_t i = 0; i < on_cpu.events.steps.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(plain->events.steps[i].loss == Approx(on_cpu.events.steps[i].loss).epsilon(5e-3));
  }
  const std::vector<Settings> exact = {
      {"train.checkpointing={every: 1}"},
      {"train.checkpointing={layers: ['*']}", "memory.in_place=false"},
      {"train.checkpointing=sqrt", "memory.allocator=planned"},
      {"memory.recompute_cheap=false"},
      {"device.cuda_graph=false"},
  };
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO(exact[i].front());
    const std::string name = "exact" + std::to_string(i);
    check_plan(*train(device, folder, name, exact[i]), device);
    const std::int64_t last_step = 6;
    CHECK(same_file(folder, name, "plain", last_step, "model.safetensors"));
  }
  check_plan(*train(device, folder, "accumulating", {"train.accumulation_steps=2"}), device);
  return num_with_statistics(*plain, device);
}

}  // namespace trainer
