#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/fixes.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

struct Planned {
  Experiment experiment;
  DataDescription data = described_data({16, 16, 3}, 10, 70, 33);
  Program program;
  RunSchedule schedule;

  explicit Planned(const std::string& rest, const std::string& allocator = "planned")
      : experiment(parse_experiment(
            "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 70}\n"
            "model: {layers: [{conv2d: {out: 64, kernel: 3}}, batchnorm2d, relu, {conv2d: {out: 96, kernel: 3}},"
            " gelu, flatten, {linear: {out: 40}}, {linear: {out: 10}}]}\n" +
                rest + "memory: {allocator: " + allocator + "}\n",
            "test.yaml")),
        program(compile(experiment, data, DescribedDevice(300'000))),
        schedule(experiment, data) {}

  MemoryPlan plan(std::int64_t capacity = unlimited_capacity) const {
    return make_memory_plan(program, schedule, capacity, allocator_options(experiment));
  }
};

std::int64_t sum(const CategoryBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }

const std::vector<std::string> variants = {
    "train: {batch_size: 8, epochs: 3}\noptimizer: {type: adam}\n",
    "train: {batch_size: 7, epochs: 2, accumulation_steps: 3, eval_every: 2}\noptimizer: {type: sgd, momentum: 0.9}\n",
    "train: {batch_size: 4, eval_batch_size: 33}\n",
    "train: {batch_size: all, epochs: 40, clip_norm: 1}\noptimizer: {type: adamw}\n",
};

}  // namespace

TEST_CASE("with a planned segment every step reserves it, within a hundredth of the peak of live bytes") {
  for (const std::string& variant : variants) {
    INFO(variant);
    const Planned planned(variant), caching(variant, "caching");
    const MemoryPlan plan = planned.plan(), other = caching.plan();
    CHECK(plan.peak_reserved == planned.program.placement->segment_bytes);
    CHECK(static_cast<double>(plan.peak_reserved) <= 1.01 * static_cast<double>(plan.peak_allocated));
    CHECK(plan.peak_requested == other.peak_requested);
    CHECK(plan.peak_reserved <= other.peak_reserved);
    CHECK(plan.num_alloc_retries == 0);
    for (const PlannedSteps& steps : plan.steps) {
      CHECK(steps.memory.reserved == plan.peak_reserved);
      CHECK(steps.memory.peak_reserved == plan.peak_reserved);
      const StepMemory* same = other.find(steps.first_step, steps.evaluation);
      REQUIRE(same != nullptr);
      CHECK(steps.memory.peak_requested == same->peak_requested);
      CHECK(steps.memory.requested == same->requested);
      CHECK(steps.memory.peak_allocated <= same->peak_allocated);
    }
    CHECK(sum(plan.peak.live.by_category) == plan.peak_allocated);
  }
}

TEST_CASE("a planned segment fits its own size, and one block below the report tells who would hold the peak") {
  for (const std::string& variant : variants) {
    INFO(variant);
    const Planned planned(variant);
    const MemoryPlan unbounded = planned.plan();
    CHECK(planned.plan(unbounded.peak_reserved).fits);
    const MemoryPlan plan = planned.plan(unbounded.peak_reserved - 512);
    REQUIRE_FALSE(plan.fits);
    REQUIRE(plan.failure);
    CHECK(plan.capacity == unbounded.peak_reserved - 512);
    const OutOfMemoryContext& context = *plan.failure;
    CHECK(context.planned);
    CHECK(context.failure.segment_bytes == unbounded.peak_reserved);
    CHECK(context.failure.capacity == plan.capacity);
    CHECK(context.failure.statistics.reserved_bytes.all.current == 0);
    CHECK(context.refused_peak == unbounded.peak_allocated);
    CHECK(context.allocated() == unbounded.peak_allocated);
    CHECK(sum(context.live.by_category) == unbounded.peak_allocated);
    std::int64_t of_layers = 0;
    for (const LiveMemory::LayerBytes& layer : context.live.by_layer) of_layers += layer.num_bytes;
    CHECK(of_layers == unbounded.peak_allocated);
    CHECK(context.step == unbounded.peak.step);
    CHECK(context.phase == unbounded.peak.phase);
    CHECK(context.layer == unbounded.peak.layer);
    CHECK(context.op == unbounded.peak.op);
    CHECK(plan.failure_in_evaluation == (context.phase == Phase::eval));
    REQUIRE_FALSE(context.timeline.empty());
    const auto highest = std::max_element(context.timeline.begin(), context.timeline.end(),
                                          [](const auto& a, const auto& b) { return a.allocated < b.allocated; });
    CHECK(highest->allocated == unbounded.peak_allocated);
  }
}

TEST_CASE("fixes of a planned run are planned with its allocator, and fit to the block") {
  const Planned planned("train: {batch_size: 32}\noptimizer: {type: adam}\n");
  const std::int64_t capacity = planned.plan().peak_reserved * 3 / 4;
  const DescribedDevice device(300'000);
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const std::vector<Change> fixes =
      find_advice(planner, planned.experiment, planned.data, capacity, 4 * capacity).fixes;
  REQUIRE_FALSE(fixes.empty());
  CHECK(fixes.front().fits);
  for (const Change& fix : fixes) {
    for (const std::string& key : fix.set) {
      INFO(key);
      CHECK(key.find("expandable_segments") == std::string::npos);
    }
    if (fix.fits) CHECK(fix.peak_reserved <= fix.capacity);
    CHECK(fix.peak_reserved % 512 == 0);
  }
}

TEST_CASE("a planned program that no machine holds does not fit, and the plan ends") {
  const Planned planned(variants[0]);
  Program program = planned.program;
  for (Buffer& buffer : program.buffers) buffer.num_bytes = std::int64_t{1} << 61;
  program.placement->segment_bytes = std::int64_t{1} << 61;
  const MemoryPlan plan = make_memory_plan(program, planned.schedule, unlimited_capacity);
  CHECK_FALSE(plan.fits);
  REQUIRE(plan.failure);
  CHECK_FALSE(plan.failure->refused_peak);
  const MemoryPlan smaller = make_memory_plan(program, planned.schedule, 1'000'000);
  CHECK_FALSE(smaller.fits);
  CHECK(smaller.failure);
}
