#include <array>
#include <numeric>

#include "datasets/batch_reader.h"
#include "engine/memory/planned_allocator.h"
#include "engine/plan/capacity.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/step_routines.h"
#include "engine/program/compile.h"
#include "engine/train/executor.h"
#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

/// Two networks; both with an odd last batch and evaluations of two sizes.
constexpr const char* images = R"(
name: images
seed: 5
data: {type: synthetic, shape: [9, 9, 3], classes: 4, samples: 44, validation_samples: 17}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual: {layers: [{conv2d: {out: 6, kernel: 3, padding: 1}}, batchnorm2d, silu]}
    - maxpool2d: {kernel: 2}
    - dropout: {p: 0.3}
    - flatten
    - linear: {out: 4}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, eval_batch_size: 10, steps: 13, eval_every: 4}
checkpoint: {every: 13}
)";
constexpr const char* features = R"(
name: features
seed: 6
data: {type: synthetic, shape: [37], classes: 5, samples: 50, validation_samples: 7}
model: {layers: [{linear: {out: 101}}, gelu, layernorm, {linear: {out: 64}}, relu, {linear: {out: 5}}]}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 12, steps: 11}
checkpoint: {every: 11}
)";

const std::vector<std::vector<std::string>> variants = {
    {},
    {"train.accumulation_steps=2"},
    {"train.clip_norm=1", "train.batch_size=1"},
    {"optimizer={type: adam, lr: 0.01}", "train.batch_size=all"},
};

std::vector<std::string> with(std::vector<std::string> overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

void check_plan(const TestRun& run) {
  const std::unique_ptr<Device> device = make_cpu_device(run.num_threads);
  const Program program = compile(run.experiment, run.data.description, *device);
  REQUIRE(program.placement);
  const MemoryPlan plan = make_memory_plan(program, RunSchedule(run.experiment, run.data.description),
                                           run_capacity(run.experiment, run.data.description, *device, true));
  for (const StepEvent& event : run.events.steps) {
    INFO("step " << event.step);
    const StepMemory* planned = plan.find(event.step, false);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  for (const EvalEvent& event : run.events.evaluations) {
    INFO("evaluation after step " << event.step);
    const StepMemory* planned = plan.find(event.step, true);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  CHECK(run.events.ends.at(0).peak_requested == plan.peak_requested);
  CHECK(run.events.ends.at(0).peak_allocated == plan.peak_allocated);
  CHECK(run.events.ends.at(0).peak_reserved == plan.peak_reserved);
  const CategoryBytes& peak = run.events.ends.at(0).peak_by_category;
  CHECK(std::accumulate(peak.begin(), peak.end(), std::int64_t{0}) == plan.peak_allocated);
}

/// Counts what is asked of the allocator it stands for.
class CountingAllocator final : public Allocator {
 public:
  explicit CountingAllocator(Allocator& inner) : inner_(inner) {}
  std::int64_t num_calls = 0;

  Block allocate(std::int64_t num_bytes) override {
    ++num_calls;
    return inner_.allocate(num_bytes);
  }
  Block allocate_at(std::int64_t num_bytes, std::int64_t offset) override {
    ++num_calls;
    return inner_.allocate_at(num_bytes, offset);
  }
  void free(const Block& block) noexcept override {
    ++num_calls;
    inner_.free(block);
  }
  void begin_layout() override {
    ++num_calls;
    inner_.begin_layout();
  }
  void release_cached() noexcept override {
    ++num_calls;
    inner_.release_cached();
  }
  const MemoryStatistics& statistics() const override { return inner_.statistics(); }
  void reset_peaks() override {
    ++num_calls;
    inner_.reset_peaks();
  }
  std::int64_t capacity() const override { return inner_.capacity(); }
  std::int64_t largest_free_block() const override { return inner_.largest_free_block(); }
  std::uint64_t fingerprint() const override { return inner_.fingerprint(); }
  MemorySnapshot snapshot() const override { return inner_.snapshot(); }

 private:
  Allocator& inner_;
};

std::int64_t total_planned(const CategoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("A planned run has its plan's bytes in every step, and the caching run's weights bit for bit") {
  for (const char* network : {images, features}) {
    for (const std::vector<std::string>& overrides : variants) {
      const OutputFolder folder;
      TestRun planned(network, folder.path("planned"), with(overrides, "memory.allocator=planned"));
      TestRun caching(network, folder.path("caching"), overrides);
      INFO(planned.experiment.resolved_json);
      REQUIRE(planned() == RunStatus::done);
      REQUIRE(caching() == RunStatus::done);
      check_plan(planned);
      const int last_step = network == images ? 13 : 11;
      CHECK(same_file(folder, "planned", "caching", last_step, "model.safetensors"));
      REQUIRE(planned.events.evaluations.size() == caching.events.evaluations.size());
      for (std::size_t i = 0; i < planned.events.evaluations.size(); ++i)
        CHECK(planned.events.evaluations[i].loss == caching.events.evaluations[i].loss);
      CHECK(planned.events.ends[0].peak_reserved <= caching.events.ends[0].peak_reserved);
      // A device that is queued ahead has staging buffers too.
      WrappedDevice ahead(make_cpu_device(1));
      ahead.is_asynchronous = true;
      TestRun queued(network, folder.path("queued"), with(overrides, "memory.allocator=planned"));
      REQUIRE(queued(ahead) == RunStatus::done);
      CHECK(same_file(folder, "planned", "queued", last_step, "model.safetensors"));
    }
  }
}

TEST_CASE("From its second time on a planned step asks nothing of the allocator, and tells the same") {
  const OutputFolder folder;
  TestRun run(images, folder.path("run"), {"memory.allocator=planned", "train.accumulation_steps=2"});
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program = compile(run.experiment, run.data.description, *device);
  const RunSchedule schedule(run.experiment, run.data.description);
  const MemoryPlan plan = make_memory_plan(program, schedule, unlimited_capacity);
  const std::unique_ptr<MemorySource> source = device->make_memory_source(std::int64_t{1} << 30);
  PlannedAllocator planned(*source, program.placement->segment_bytes);
  CountingAllocator allocator(planned);
  Executor executor(program, *device, allocator);
  executor.begin_step(0);
  executor.run(program.load, {});
  CHECK(allocator.num_calls > 0);

  const auto lay_out_step = [&](std::int64_t step) {
    std::vector<const Routine*> routines;
    for_each_step_routine(program, schedule, schedule.step(step),
                          [&](const Routine& routine, bool) { routines.push_back(&routine); });
    executor.begin_step(step);
    executor.lay_out(routines);
    CHECK(executor.memory() == *plan.find(step, false));
  };
  const auto lay_out_evaluation = [&] {
    executor.begin_step(4);
    for_each_evaluation_routine(program, schedule, [&](const auto& routines, std::int64_t times) {
      for (std::int64_t i = 0; i < times; ++i) executor.lay_out(routines);
    });
    CHECK(executor.memory() == *plan.find(4, true));
  };
  // An epoch has two whole steps and one with the odd batch.
  for (std::int64_t step = 1; step <= 3; ++step) lay_out_step(step);
  lay_out_evaluation();
  const std::int64_t num_calls = allocator.num_calls;
  const StepMemory run_peak = executor.run_peak();
  for (std::int64_t step = 4; step <= 13; ++step) lay_out_step(step);
  lay_out_evaluation();
  CHECK(allocator.num_calls == num_calls);
  CHECK(executor.run_peak() == run_peak);
  CHECK(total_planned(executor.peak_by_category()) == plan.peak_allocated);

  executor.release_all();
  CHECK(source->held() == 0);
  // Everything can be loaded and laid out anew.
  executor.begin_step(0);
  executor.run(program.load, {});
  lay_out_step(1);
  executor.release_all();
}

TEST_CASE("A planned segment that is refused ends before the first step in a report that adds up, with fixes") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"memory.allocator=planned", "train.batch_size=all"};
  TestRun fitting(images, folder.path("fitting"), with(overrides, "train.steps=1"));
  REQUIRE(fitting() == RunStatus::done);
  const std::int64_t segment = fitting.events.ends.at(0).peak_reserved;
  const std::string limit = "memory.limit=" + std::to_string(segment - 512);
  TestRun planned(images, folder.path("planned"), with(overrides, limit));
  TestRun real(images, folder.path("real"), with(with(overrides, limit), "memory.preflight=off"));
  // A device that has less than it says fails in the run alone.
  TestRun short_run(images, folder.path("short"), overrides);
  WrappedDevice short_device(make_cpu_device(1));
  short_device.memory.real_capacity = segment - 1;
  REQUIRE(planned() == RunStatus::out_of_memory);
  REQUIRE(real() == RunStatus::out_of_memory);
  REQUIRE(short_run(short_device) == RunStatus::out_of_memory);
  for (const TestRun* run : {&planned, &real, &short_run}) {
    REQUIRE(run->events.failures.size() == 1);
    CHECK(run->events.steps.empty());
    CHECK(run->events.ends.at(0).status == "oom");
    const OutOfMemoryContext& context = run->events.failures[0].context;
    CHECK(context.planned == (run == &planned));
    CHECK(context.failure.segment_bytes == segment);
    CHECK(context.failure.statistics.reserved_bytes.all.current == 0);
    CHECK(context.step == 1);
    CHECK(context.refused_peak == fitting.events.ends[0].peak_allocated);
    CHECK(total_planned(context.live.by_category) == fitting.events.ends[0].peak_allocated);
    CHECK_FALSE(context.layer.empty());
    CHECK_FALSE(context.timeline.empty());
    const std::vector<Change>& fixes = run->events.failures[0].fixes;
    REQUIRE_FALSE(fixes.empty());
    CHECK(fixes.front().fits);
    CHECK(fixes.front().peak_reserved <= fixes.front().capacity);
  }
  // The first fix, applied, runs.
  std::vector<std::string> fixed = with(overrides, limit);
  for (const std::string& key : planned.events.failures[0].fixes.front().set) fixed.push_back(key);
  TestRun repaired(images, folder.path("planned"), fixed);
  CHECK(repaired() == RunStatus::done);
}
