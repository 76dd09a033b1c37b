#include <catch2/catch.hpp>

#include <random>

#include "engine/config/load_experiment.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/evaluation_savings.h"
#include "engine/plan/search/fixes.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/search/planner.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

/// With the allocator that `memory` names, "" for the default.
Experiment of_allocator(const std::string& allocator, int width, int batch_size, const std::string& further = "") {
  std::vector<std::string> overrides = {"train.batch_size=" + std::to_string(batch_size)};
  if (!allocator.empty()) overrides.push_back("memory.allocator=" + allocator);
  if (!further.empty()) overrides.push_back(further);
  return parse_experiment(
      "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 500}\n"
      "model: {layers: [{conv2d: {out: " +
          std::to_string(width) +
          ", kernel: 3}}, batchnorm2d, relu, {conv2d: {out: 24, kernel: 3}}, gelu, flatten, "
          "{linear: {out: 40}}, {linear: {out: 10}}]}\n",
      "test.yaml", overrides);
}

/// With the caching allocator, and no layout placed.
Experiment settled_without_places(const Experiment& caching, const DataDescription& data, const DeviceModel& device,
                                  std::int64_t capacity) {
  return settle_experiment(caching, data, device, capacity, nullptr, PlacedLayouts::never);
}

MemoryPlan unplaced_plan(const Experiment& caching, const DataDescription& data, const DeviceModel& device,
                         std::int64_t capacity) {
  const Experiment settled = settled_without_places(caching, data, device, capacity);
  return make_memory_plan(compile(settled, data, device), RunSchedule(settled, data), capacity,
                          allocator_options(settled, PlacedLayouts::never));
}

}  // namespace

TEST_CASE(
    "memory.allocator: auto is caching where the run fits with it as it is, planned where that fits, else caching",
    "[exhaustive]") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  const DataDescription data = described_data({16, 16, 3}, 10, 500, 60);
  std::mt19937 random(7);
  int num_caching = 0, num_planned = 0, num_neither = 0;
  for (int i = 0; i < 30; ++i) {
    const int width = 20 + static_cast<int>(random() % 40), batch_size = 20 + static_cast<int>(random() % 100);
    const std::string further = i % 5 == 0   ? "train.checkpointing=auto"
                                : i % 5 == 1 ? "memory.expandable_segments=true"
                                             : "seed=1";
    INFO(width << " channels, batches of " << batch_size << ", " << further);
    Planner planner(device, rates);
    const Experiment asked = of_allocator("", width, batch_size, further);
    REQUIRE(asked.memory.allocator == AllocatorKind::automatic);
    const Experiment caching = of_allocator("caching", width, batch_size, further);
    Experiment planned = asked;
    planned.memory.allocator = AllocatorKind::planned;
    planned.memory.expandable_segments = false;
    const std::int64_t most = planner.plan(caching, data, unlimited_capacity).peak_reserved;
    const std::int64_t least = planner.plan(planned, data, unlimited_capacity).peak_reserved;
    for (const std::int64_t capacity : {most, most - 1, least, least - 1, least / 2}) {
      INFO("capacity " << capacity);
      const MemoryPlan unplaced = unplaced_plan(caching, data, device, capacity);
      const bool fits_caching = unplaced.fits, fits_planned = planner.fits(planned, data, capacity);
      const Experiment settled = settle_experiment(asked, data, device, capacity);
      // What caching has to compute again, planned may not.
      const bool is_bettered =
          !fits_caching || settled_without_places(caching, data, device, capacity).train.checkpointing.budget > 0;
      const AllocatorKind expected = is_bettered && fits_planned ? AllocatorKind::planned : AllocatorKind::caching;
      CHECK(settled.memory.allocator == expected);
      CHECK(planner.fits(asked, data, capacity) == (fits_caching || fits_planned));
      const Verdict verdict = planner.plan(asked, data, capacity);
      CHECK(verdict.fits == (fits_caching || fits_planned));
      if (verdict.fits)
        CHECK(verdict.peak_reserved == (expected == AllocatorKind::planned
                                            ? planner.plan(planned, data, capacity).peak_reserved
                                            : unplaced.peak_reserved));
      // What fits with placed layouts fits with one planned segment.
      if (planner.fits(caching, data, capacity)) CHECK(verdict.fits);
      num_caching += fits_caching ? 1 : 0;
      num_planned += !fits_caching && fits_planned ? 1 : 0;
      num_neither += !fits_caching && !fits_planned ? 1 : 0;
    }
  }
  CHECK(num_caching >= 30);
  CHECK(num_planned >= 20);
  CHECK(num_neither >= 30);
}

TEST_CASE("the largest batch under memory.allocator: auto is the larger of both allocators', and auto stands for it") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  const DataDescription data = described_data({16, 16, 3}, 10, 500, 60);
  int num_larger = 0;
  for (const std::int64_t mebibytes : {9, 14, 23, 31}) {
    const std::int64_t capacity = mebibytes << 20;
    const auto largest = [&](const std::string& allocator) {
      Planner planner(device, rates);
      const WithValue with_batch = [&](std::int64_t size) -> std::optional<Candidate> {
        return Candidate{of_allocator(allocator, 32, static_cast<int>(size)), data};
      };
      return find_largest_value(planner, with_batch, {.highest = 500, .capacity = capacity}).value.value_or(0);
    };
    const std::int64_t of_auto = largest(""), of_caching = largest("caching");
    CHECK(of_auto == std::max(of_caching, largest("planned")));
    num_larger += of_auto > of_caching ? 1 : 0;
    Experiment open = of_allocator("", 32, 1);
    open.train.batch_size = BatchSize::Word::automatic;
    const Experiment settled = settle_experiment(open, data, device, capacity);
    CHECK(settled.train.batch_size == of_auto);
    const Experiment caching = of_allocator("caching", 32, static_cast<int>(of_auto));
    const bool is_caching = unplaced_plan(caching, data, device, capacity).fits;
    CHECK(settled.memory.allocator == (is_caching ? AllocatorKind::caching : AllocatorKind::planned));
  }
  CHECK(num_larger > 0);
}

TEST_CASE("fixes of a run whose allocator is chosen never set it, and need nothing that planned places already save") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  const DataDescription data = described_data({16, 16, 3}, 10, 500, 60);
  const Experiment asked = of_allocator("", 40, 100);
  Planner planner(device, rates);
  Experiment planned = asked;
  planned.memory.allocator = AllocatorKind::planned;
  const std::int64_t least = planner.plan(planned, data, unlimited_capacity).peak_reserved;
  for (const int percent : {99, 80, 60, 30}) {
    const std::vector<Change> fixes = find_advice(planner, asked, data, least * percent / 100).fixes;
    CHECK_FALSE(fixes.empty());
    for (const Change& fix : fixes)
      for (const std::string& word : fix.set) {
        CHECK_FALSE(word.starts_with("memory.allocator"));
        CHECK_FALSE(word.starts_with("memory.expandable_segments"));
      }
  }
}

TEST_CASE(
    "what a smaller evaluation saves where neither allocator fits is of the plan that is shown, which is caching's") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  const DataDescription data = described_data({16, 16, 3}, 10, 500, 400);
  const Experiment asked = of_allocator("", 40, 20, "train.eval_batch_size=400");
  const auto peak_of = [&](const std::string& allocator, std::int64_t size) {
    const Experiment changed = of_allocator(allocator, 40, 20, "train.eval_batch_size=" + std::to_string(size));
    return make_memory_plan(compile(changed, data, device), RunSchedule(changed, data), unlimited_capacity);
  };
  const MemoryPlan shown = peak_of("caching", 400);
  const std::int64_t capacity = peak_of("planned", 1).peak_reserved / 2;
  Planner planner(device, rates);
  const EvaluationSavings savings = find_evaluation_savings(planner, asked, data, shown, 400, capacity);
  REQUIRE(savings.cut);
  const std::int64_t size = savings.cut->eval_batch_size;
  CHECK(savings.cut->peak_reserved == peak_of("caching", size).peak_reserved);
  CHECK(savings.cut->peak_reserved != peak_of("planned", size).peak_reserved);
  CHECK(savings.cut->peak_reserved < shown.peak_reserved);
}
