#include "engine/train/measure/measured_steps.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "engine/train/executor.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

CompiledExperiment compile_run(const TestRun& run, const Device& device) {
  return compile_experiment(run.experiment, run.data.description, device, 1 << 30);
}

}  // namespace

TEST_CASE("the first steps, measured without a run, hold what the plan says, evaluations and odd batches too") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {},
           {"train.eval_every=1"},
           {"train.batch_size=44", "train.accumulation_steps=1"},
           {"train.amp=bf16", "train.eval_every=2"},
           {"train.amp=fp16", "memory.allocator=planned", "train.eval_every=1"},
           {"train.checkpointing={every: 2}", "data.drop_last=true"},
           {"train.batch_size=9", "train.accumulation_steps=2", "train.eval_batch_size=5", "train.eval_every=3"}}) {
    INFO((set.empty() ? "as it is" : set.front()));
    const TestRun run(small_experiment, folder.path("run"), set);
    const CompiledExperiment compiled = compile_run(run, *device);
    const MemoryPlan plan = plan_memory(compiled, 1 << 30);
    const MeasuredSteps measured = measure_steps(compiled, run.data, *device, 1 << 30, 4);
    REQUIRE(measured.steps.size() >= 5);
    for (const MeasuredStep& step : measured.steps) {
      INFO("step " << step.step << (step.evaluation ? ", evaluation" : ""));
      const StepMemory* const planned = plan.find(step.step, step.evaluation);
      REQUIRE(planned != nullptr);
      CHECK(*planned == step.memory);
    }
    CHECK(measured.steps.front().step == 0);
    CHECK(measured.used_highest >= measured.used_before);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("run")));
}

TEST_CASE("a measured step that finds too little memory tells who held it, by category at every point") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const TestRun run(small_experiment, folder.path("run"),
                    {"train.batch_size=44", "train.accumulation_steps=1", "data.shape=[61, 53, 2]"});
  const CompiledExperiment compiled = compile_run(run, *device);
  const MemoryPlan plan = plan_memory(compiled, 1 << 30);
  CHECK(measure_steps(compiled, run.data, *device, plan.peak_reserved, 2).steps.size() >= 3);
  try {
    measure_steps(compiled, run.data, *device, plan.first_step.peak_allocated - 1, 2);
    FAIL("less than what is allocated does not suffice");
  } catch (const ProgramOutOfMemory& error) {
    const std::vector<TimelinePoint>& timeline = error.context().timeline;
    REQUIRE_FALSE(timeline.empty());
    for (const TimelinePoint& point : timeline)
      CHECK(std::accumulate(point.by_category.begin(), point.by_category.end(), std::int64_t{0}) == point.allocated);
  }
}

TEST_CASE("a run of fewer steps than are to be measured is measured to its end") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const TestRun run(small_experiment, folder.path("run"), {"train.steps=1"});
  const MeasuredSteps measured = measure_steps(compile_run(run, *device), run.data, *device, 1 << 30, 2);
  REQUIRE(measured.steps.size() == 3);
  CHECK(measured.steps[1].step == 1);
  CHECK(measured.steps[2].evaluation);
}

TEST_CASE("a run of no steps is measured by the evaluation of its weights") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const TestRun run(small_experiment, folder.path("run"), {"train.steps=0"});
  const CompiledExperiment compiled = compile_run(run, *device);
  const MeasuredSteps measured = measure_steps(compiled, run.data, *device, 1 << 30, 2);
  REQUIRE(measured.steps.size() == 2);
  CHECK(measured.steps[1].evaluation);
  CHECK(*plan_memory(compiled, 1 << 30).find(0, true) == measured.steps[1].memory);
}

}  // namespace trainer
