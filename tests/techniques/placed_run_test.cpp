#include <catch2/catch.hpp>

#include "engine/plan/allocator_options.h"
#include "engine/program/compile.h"
#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// Networks whose caching allocator places layouts under some capacity, with an odd last batch.
const std::vector<std::string> placed_networks = {
    R"(
data: {type: synthetic, shape: [20, 20, 3], classes: 6, samples: 90, validation_samples: 30}
model:
  layers:
    - conv2d: {out: 24, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual: {layers: [{conv2d: {out: 24, kernel: 3, padding: 1}}, batchnorm2d, silu]}
    - maxpool2d: {kernel: 2}
    - flatten
    - linear: {out: 6}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 60, steps: 5, eval_every: 2}
)",
    R"(
data: {type: synthetic, shape: [500], classes: 6, samples: 2100, validation_samples: 3000}
model: {layers: [{linear: {out: 1500}}, gelu, {dropout: {p: 0.2}}, {linear: {out: 900}}, relu, {linear: {out: 6}}]}
optimizer: {type: sgd, lr: 0.01, momentum: 0.9}
train: {batch_size: 900, eval_batch_size: 2400, steps: 5, eval_every: 2}
)"};

const std::vector<std::vector<std::string>> placed_variants = {
    {}, {"train.accumulation_steps=2"}, {"train.amp=bf16"}, {"train.steps=7", "train.eval_batch_size=10"}};

/// The least capacity in steps of 512 KiB, and whether the plan places layouts there.
std::int64_t least_capacity(const TestRun& run, const Device& device, PlacedLayouts placed) {
  const DataDescription& data = run.data.description;
  const Program program = compile(run.experiment, data, device);
  const RunSchedule schedule(run.experiment, data);
  constexpr std::int64_t unit = 512 << 10;
  std::int64_t low = 0, high = (std::int64_t{1} << 30) / unit;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (plan_peak(program, schedule, middle * unit, allocator_options(run.experiment, placed)).fits ? high : low) = middle;
  }
  return high * unit;
}

/// Whether every step, evaluation and the end of the run have the plan's bytes; tells the first placed step.
std::int64_t check_placed_run(const TestRun& run, const Device& device, std::int64_t capacity) {
  const DataDescription& data = run.data.description;
  const Program program = compile(run.experiment, data, device);
  const MemoryPlan plan =
      make_memory_plan(program, RunSchedule(run.experiment, data), capacity, allocator_options(run.experiment));
  REQUIRE(plan.fits);
  for (const StepEvent& event : run.events.steps) {
    INFO("step " << event.step);
    const StepMemory* const planned = plan.find(event.step, false);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  for (const EvalEvent& event : run.events.evaluations) {
    INFO("evaluation after step " << event.step);
    const StepMemory* const planned = plan.find(event.step, true);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  const EndEvent& end = run.events.ends.at(0);
  CHECK(end.peak_requested == plan.peak_requested);
  CHECK(end.peak_allocated == plan.peak_allocated);
  CHECK(end.peak_reserved == plan.peak_reserved);
  std::int64_t by_category = 0;
  for (const std::int64_t bytes : end.peak_by_category) by_category += bytes;
  CHECK(by_category == plan.peak_allocated);
  return plan.first_placed_step;
}

}  // namespace

TEST_CASE("a run whose layouts are placed has its plan's bytes in every step, and the weights of one with room") {
  int num_placed = 0, num_placed_later = 0;
  for (const std::string& network : placed_networks)
    for (const std::vector<std::string>& variant : placed_variants) {
      const OutputFolder folder;
      std::vector<std::string> overrides = {"memory.allocator=caching", "checkpoint.every=100"};
      overrides.insert(overrides.end(), variant.begin(), variant.end());
      TestRun roomy(network, folder.path("roomy"), overrides);
      INFO(roomy.experiment.resolved_json);
      const std::unique_ptr<Device> device = make_cpu_device(roomy.num_threads);
      const std::int64_t least = least_capacity(roomy, *device, PlacedLayouts::where_needed);
      const std::int64_t unplaced = least_capacity(roomy, *device, PlacedLayouts::never);
      REQUIRE(roomy() == RunStatus::done);
      if (least == unplaced) continue;
      for (const std::int64_t capacity : {least, (least + unplaced) / 2, unplaced - 512}) {
        INFO("capacity " << capacity << " of " << least << ", " << unplaced);
        for (const bool is_asynchronous : {false, true}) {
          std::vector<std::string> limited = overrides;
          limited.push_back("memory.limit=" + std::to_string(capacity));
          TestRun run(network, folder.path("run"), limited);
          run.options.overwrite = true;
          WrappedDevice wrapped(make_cpu_device(run.num_threads));
          wrapped.is_asynchronous = is_asynchronous;
          const bool may_fit =
              !is_asynchronous || least_capacity(run, wrapped, PlacedLayouts::where_needed) <= capacity;
          if (!may_fit) continue;  // there are staging buffers too
          REQUIRE(run(wrapped) == RunStatus::done);
          const std::int64_t first = check_placed_run(run, wrapped, capacity);
          if (!is_asynchronous) CHECK(first >= 0);
          CHECK(run.events.starts.at(0).first_placed_step == first);
          num_placed += first >= 0 ? 1 : 0;
          num_placed_later += first > 1 ? 1 : 0;
          CHECK(same_file(folder, "run", "roomy", static_cast<int>(run.events.steps.back().step), "model.safetensors"));
        }
      }
    }
  CHECK(num_placed >= 12);
  CHECK(num_placed_later >= 1);
}

TEST_CASE("a run whose device has less than it said places its layouts, and goes on") {
  const OutputFolder folder;
  for (const std::string& network : placed_networks) {
    TestRun run(network, folder.path("run"), {"memory.allocator=caching", "memory.preflight=false"});
    run.options.overwrite = true;
    run.num_warnings = 1;
    WrappedDevice device(make_cpu_device(run.num_threads));
    device.memory.real_capacity = least_capacity(run, device, PlacedLayouts::where_needed);
    REQUIRE(run(device) == RunStatus::done);
    CHECK(device.memory.was_refused);
    CHECK(check_placed_run(run, device, device.memory.real_capacity) >= 0);
    CHECK(run.events.starts.at(0).first_placed_step == -1);
    CHECK_THAT(run.events.warnings.at(0).message, Catch::Contains("segments of the caching allocator no longer held"));
  }
}

TEST_CASE("a run whose segment of places is refused by the device adapts to what the device has") {
  const OutputFolder folder;
  for (const std::string& network : placed_networks) {
    const std::vector<std::string> overrides = {"memory.allocator=caching", "train.accumulation_steps=2"};
    TestRun asked(network, folder.path("asked"), overrides);
    const std::unique_ptr<Device> cpu = make_cpu_device(asked.num_threads);
    const std::int64_t least = least_capacity(asked, *cpu, PlacedLayouts::where_needed);
    const std::int64_t unplaced = least_capacity(asked, *cpu, PlacedLayouts::never);
    REQUIRE(least < unplaced);
    std::vector<std::string> limited = overrides;
    limited.insert(limited.end(),
                   {"memory.limit=" + std::to_string(unplaced - 512), "memory.on_oom=adapt", "train.steps=4"});
    TestRun run(network, folder.path("run"), limited);
    run.options.overwrite = true;
    run.options.rates = assumed_cpu_rates(1);
    WrappedDevice device(make_cpu_device(run.num_threads));
    device.memory.real_capacity = least - (std::int64_t{1} << 20);
    REQUIRE(run(device) == RunStatus::done);
    REQUIRE_FALSE(run.events.adaptations.empty());
    CHECK(run.events.adaptations.front().change.capacity < unplaced - 512);
    for (const StepEvent& step : run.events.steps) CHECK(step.memory.step.peak_reserved <= device.memory.real_capacity);
  }
}

}  // namespace trainer
