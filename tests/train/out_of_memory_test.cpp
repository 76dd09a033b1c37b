#include <algorithm>
#include <numeric>

#include "datasets/batch_reader.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/machine_memory.h"
#include "engine/program/compile.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/parameter_init.h"
#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

constexpr const char* wide_experiment = R"(
name: wide
seed: 1
data: {type: synthetic, shape: [64], classes: 10, samples: 600, validation_samples: 0}
model:
  layers:
    - linear: {out: 2000}
    - relu
    - linear: {out: 2000}
    - relu
    - linear: {out: 10}
optimizer: {type: sgd, lr: 0.01, momentum: 0.9}
train: {batch_size: 200, steps: 4}
)";

/// Notes what the run's source holds when the failure is told.
struct HoldingSink : RecordingSink {
  const WrappedDevice* device = nullptr;
  std::vector<std::int64_t> held;
  void take(const Event& event) override {
    RecordingSink::take(event);
    if (std::holds_alternative<OutOfMemoryEvent>(event) && device->source != nullptr)
      held.push_back(device->source->held());
  }
};

RunStatus run_with(TestRun& run, WrappedDevice& device, HoldingSink& sink) {
  sink.device = &device;
  return run_training(run.experiment, run.data, device, run.options, run.interruption, sink);
}

std::int64_t total(const CategoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }

}  // namespace

TEST_CASE("What the plan shows not to fit is reported before the first step, and the output stays free") {
  const OutputFolder folder;
  TestRun run(wide_experiment, folder.path("run"), {"memory.limit=48MiB"});
  WrappedDevice device(make_cpu_device(1));
  HoldingSink events;
  REQUIRE(run_with(run, device, events) == RunStatus::out_of_memory);
  REQUIRE(events.failures.size() == 1);
  CHECK(events.failures[0].context.planned);
  CHECK(events.failures[0].fixes.size() >= 3);
  CHECK(device.source == nullptr);
  CHECK(events.steps.empty());
  CHECK(events.ends.back().status == "oom");
  // The same folder serves the repaired run.
  REQUIRE(!events.failures[0].fixes.empty());
  const Change& fix = events.failures[0].fixes.front();
  CAPTURE(fix.set);
  REQUIRE(fix.fits);
  std::vector<std::string> overrides = fix.set;
  overrides.insert(overrides.begin(), "memory.limit=48MiB");
  TestRun repaired(wide_experiment, folder.path("run"), overrides);
  CHECK(repaired() == RunStatus::done);
}

TEST_CASE("Memory that runs out in a step ends in a report and gives everything back") {
  const OutputFolder folder;
  TestRun run(wide_experiment, folder.path("run"), {"memory.limit=48MiB", "memory.preflight=off"});
  WrappedDevice device(make_cpu_device(1));
  HoldingSink events;
  REQUIRE(run_with(run, device, events) == RunStatus::out_of_memory);
  REQUIRE(events.failures.size() == 1);
  CHECK(events.held == std::vector<std::int64_t>{0});
  const OutOfMemoryContext& context = events.failures[0].context;
  CHECK_FALSE(context.planned);
  CHECK(context.step == 1);
  CHECK(context.failure.capacity == std::int64_t{48} << 20);
  CHECK(total(context.live.by_category) == context.failure.statistics.allocated_bytes.all.current);
  CHECK_FALSE(context.layer.empty());
  REQUIRE_FALSE(context.timeline.empty());
  const auto highest = std::max_element(context.timeline.begin(), context.timeline.end(),
                                        [](const auto& a, const auto& b) { return a.allocated < b.allocated; });
  CHECK(highest->allocated >= context.failure.statistics.allocated_bytes.all.current);
  CHECK(events.failures[0].fixes.size() >= 3);
  CHECK(events.ends.back().peak_reserved <= std::int64_t{48} << 20);
}

TEST_CASE("The plan's failure and the run's are the same") {
  const OutputFolder folder;
  TestRun planned(wide_experiment, folder.path("a"), {"memory.limit=48MiB"});
  TestRun real(wide_experiment, folder.path("b"), {"memory.limit=48MiB", "memory.preflight=off"});
  planned();
  real();
  const OutOfMemoryContext& a = planned.events.failures.at(0).context;
  const OutOfMemoryContext& b = real.events.failures.at(0).context;
  CHECK(a.step == b.step);
  CHECK(a.phase == b.phase);
  CHECK(a.layer == b.layer);
  CHECK(a.op == b.op);
  CHECK(a.buffer == b.buffer);
  CHECK(a.failure.requested == b.failure.requested);
  CHECK(a.live.by_category == b.live.by_category);
  CHECK(a.failure.statistics == b.failure.statistics);
}

TEST_CASE("A device that has less than it said fails in the step, and the fixes are for what it really has") {
  const OutputFolder folder;
  TestRun run(wide_experiment, folder.path("run"), {"memory.limit=512MiB"});
  WrappedDevice device(make_cpu_device(1));
  device.memory.real_capacity = std::int64_t{48} << 20;
  HoldingSink events;
  REQUIRE(run_with(run, device, events) == RunStatus::out_of_memory);
  CHECK(events.held == std::vector<std::int64_t>{0});
  for (const Change& fix : events.failures.at(0).fixes) {
    if (fix.fits) CHECK(fix.peak_reserved < (std::int64_t{48} << 20) + (std::int64_t{20} << 20));
  }
}

TEST_CASE("A step that fails after others loses nothing: the run resumes as if it had not failed") {
  const bool is_asynchronous = GENERATE(false, true);
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"data.shape=[24, 24, 2]", "model.layers.0.conv2d.out=32"};
  TestRun whole(small_experiment, folder.path("whole"), overrides);
  REQUIRE(whole() == RunStatus::done);

  TestRun first(small_experiment, folder.path("run"), overrides);
  first.events.interrupt_after = 11;
  REQUIRE(first() == RunStatus::interrupted);
  CHECK(RunDirectory(folder.path("run")).checkpoint_steps().back() == 11);

  // The resumed run's first step meets a device that holds its parameters and no step.
  TestRun second(small_experiment, folder.path("run"), overrides);
  second.options.resume = true;
  WrappedDevice device(make_cpu_device(1));
  device.is_asynchronous = is_asynchronous;
  device.memory.real_capacity = std::int64_t{2} << 20;
  HoldingSink events;
  REQUIRE(run_with(second, device, events) == RunStatus::out_of_memory);
  REQUIRE(events.failures.size() == 1);
  CHECK(events.held == std::vector<std::int64_t>{0});
  CHECK(events.failures[0].context.step == 12);
  CHECK(RunDirectory(folder.path("run")).checkpoint_steps().back() == 11);

  TestRun third(small_experiment, folder.path("run"), overrides);
  third.options.resume = true;
  REQUIRE(third() == RunStatus::done);
  CHECK(same_file(folder, "run", "whole", 40, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 40, "optimizer.safetensors"));
}

TEST_CASE("An evaluation that does not fit loses nothing either") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"data.validation_samples=4000", "train.eval_batch_size=4000",
                                              "train.steps=10"};
  TestRun whole(small_experiment, folder.path("whole"), overrides);
  REQUIRE(whole() == RunStatus::done);
  TestRun first(small_experiment, folder.path("run"), overrides);
  WrappedDevice device(make_cpu_device(1));
  device.memory.real_capacity = std::int64_t{4} << 20;
  HoldingSink events;
  REQUIRE(run_with(first, device, events) == RunStatus::out_of_memory);
  CHECK(events.failures.at(0).context.phase == Phase::eval);
  CHECK(events.failures.at(0).context.step == 8);
  CHECK(events.evaluations.empty());
  TestRun second(small_experiment, folder.path("run"), overrides);
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(second.events.evaluations.front().step == 8);
  CHECK(second.events.evaluations.front().loss == whole.events.evaluations.front().loss);
  CHECK(same_file(folder, "run", "whole", 10, "model.safetensors"));
}

TEST_CASE("Two hundred failures in one process leave nothing behind") {
  const OutputFolder folder;
  TestRun run(wide_experiment, folder.path("run"));
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program = compile(run.experiment, run.data.description, *device);
  const std::unique_ptr<MemorySource> source = device->make_memory_source(std::int64_t{48} << 20);
  CachingAllocator allocator(*source);
  const Sampler sampler({.num_samples = run.data.train->size(), .batch_size = 200});
  BatchReader reader(*run.data.train, sampler, {});
  std::int64_t resident_after_ten = 0;
  for (int i = 1; i <= 200; ++i) {
    Executor executor(program, *device, allocator);
    executor.begin_step(0);
    executor.run(program.load, {});
    if (i == 1) initialize_parameters(executor, 1);
    executor.begin_step(1);
    bool failed = false;
    try {
      executor.run(program.micro_batches.front().first, {}, reader.next());
    } catch (const ProgramOutOfMemory& error) {
      failed = true;
      CHECK(total(error.context().live.by_category) == error.failure().statistics.allocated_bytes.all.current);
    }
    REQUIRE(failed);
    executor.release_all();
    REQUIRE(allocator.statistics().allocated_bytes.all.current == 0);
    REQUIRE(allocator.statistics().reserved_bytes.all.current == 0);
    REQUIRE(allocator.statistics().num_ooms == i);
    REQUIRE(source->held() == 0);
    if (i == 10) resident_after_ten = resident_bytes();
  }
  CHECK(resident_bytes() - resident_after_ten < std::int64_t{4} << 20);

  // And the same process trains.
  TestRun fitting(wide_experiment, folder.path("fitting"), {"train.batch_size=10"});
  CHECK(fitting(*device) == RunStatus::done);
}

TEST_CASE("Memory that a step still needs is not given back while the step is laid out") {
  const char* const network = R"(
name: giving-back
data: {type: synthetic, shape: [64], classes: 10, samples: 1440, validation_samples: 0}
model: {layers: [linear: {out: 4000}, relu, linear: {out: 10}]}
train: {batch_size: 720, steps: 2}
memory: {allocator: caching}
)";
  const OutputFolder folder;
  TestRun unbounded(network, folder.path("unbounded"));
  WrappedDevice first(make_cpu_device(1));
  HoldingSink expected;
  REQUIRE(run_with(unbounded, first, expected) == RunStatus::done);
  // Between what is live at once and what the run reserves at ease, segments of 12 and of 20 MiB take turns.
  int num_done = 0, num_refused = 0;
  for (int limit_mib = 24; limit_mib <= 52; limit_mib += 2) {
    INFO(limit_mib << " MiB");
    TestRun run(network, folder.path(std::to_string(limit_mib)), {"memory.limit=" + std::to_string(limit_mib) + "MiB"});
    WrappedDevice device(make_cpu_device(1));
    HoldingSink events;
    const RunStatus status = run_with(run, device, events);
    (status == RunStatus::done ? num_done : num_refused) += 1;
    if (status != RunStatus::done) continue;
    REQUIRE(events.steps.size() == expected.steps.size());
    for (std::size_t i = 0; i < events.steps.size(); ++i) CHECK(events.steps[i].loss == expected.steps[i].loss);
  }
  CHECK(num_done > 0);
  CHECK(num_refused > 0);
}

TEST_CASE("Fixes of a run whose batch size was found name the batch that they were planned with") {
  const OutputFolder folder;
  TestRun run(wide_experiment, folder.path("run"), {"memory.limit=32MiB", "train.batch_size=auto"});
  WrappedDevice device(make_cpu_device(1));
  HoldingSink events;
  REQUIRE(run_with(run, device, events) == RunStatus::out_of_memory);
  REQUIRE_FALSE(events.failures.at(0).fixes.empty());
  for (const Change& fix : events.failures[0].fixes) {
    const auto names_it = [](const std::string& word) { return word.starts_with("train.batch_size="); };
    CHECK(std::count_if(fix.set.begin(), fix.set.end(), names_it) == 1);
  }
}
