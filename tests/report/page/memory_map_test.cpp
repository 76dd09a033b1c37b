// A map against a trace that is replayed with sets of bytes of this test's own.

#include "engine/report/page/memory_map.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/plan/allocator_options.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

namespace trainer {
namespace {

bool is_seen(std::int32_t begin, std::int32_t end, std::int32_t moment) {
  return begin <= moment && (end == MemoryMap::behind_step || moment < end);
}

MemoryAction action_of(MemoryAction::Kind kind, std::int32_t index, std::uint64_t address, std::int64_t num_bytes) {
  return {.kind = kind, .index = index, .phase = Phase::forward, .address = address, .num_bytes = num_bytes};
}

}  // namespace

TEST_CASE("A memory map holds at each moment what the trace does, and its peak is the plan's") {
  const std::string settings = GENERATE("train: {batch_size: 24}\n", "train: {batch_size: 24, checkpointing: sqrt}\n",
                                        "train: {batch_size: 24}\nmemory: {expandable_segments: true}\n",
                                        "train: {batch_size: 24}\nmemory: {allocator: planned}\n",
                                        "train: {batch_size: 1, eval_batch_size: 64}\n");
  CAPTURE(settings);
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64, validation_samples: 64}\n"
      "model: {layers: [{conv2d: {out: 24, kernel: 3, padding: 1}}, batchnorm2d, relu, flatten, {linear: {out: 10}}]}\n"
      "optimizer: {type: adam, lr: 0.001}\n" +
          settings,
      "test.yaml");
  const DataDescription data = described_data({16, 16, 3}, 10, 64, 64);
  const Program program = compile(experiment, data, DescribedDevice(300'000));
  const RunSchedule schedule(experiment, data);
  const CachingAllocatorOptions options = allocator_options(experiment);
  const MemoryPlan plan = make_memory_plan(program, schedule, unlimited_capacity, options);
  const MemoryTrace trace = trace_peak(program, schedule, plan, options);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < program.calls.size(); ++i) seconds.push_back(static_cast<double>(i));
  const MemoryMap map = make_memory_map(program, trace, seconds);

  const auto peak = static_cast<std::size_t>(map.peak);
  CHECK(map.moments[peak].allocated == plan.peak.allocated);
  std::int64_t most_reserved = 0;
  for (const MemoryMap::Moment& moment : map.moments) {
    most_reserved = std::max(most_reserved, moment.reserved);
    CHECK(moment.allocated <= plan.peak.allocated);
  }
  CHECK(most_reserved == plan.find(map.step, map.evaluation)->peak_reserved);
  const auto num_runs = std::count_if(trace.actions.begin(), trace.actions.end(), [](const MemoryAction& action) {
    return action.kind == MemoryAction::Kind::run;
  });
  CHECK(std::count_if(map.moments.begin(), map.moments.end(), [](const auto& moment) { return moment.call >= 0; }) ==
        num_runs);

  for (std::int32_t moment = 0; moment < static_cast<std::int32_t>(map.moments.size()); ++moment) {
    std::int64_t allocated = 0, reserved = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks, segments;
    for (const MemoryMap::Block& block : map.blocks) {
      if (!is_seen(block.begin, block.end, moment)) continue;
      allocated += block.num_bytes;
      const std::uint64_t begin =
          map.ranges[static_cast<std::size_t>(block.range)].address + static_cast<std::uint64_t>(block.offset);
      CHECK(block.offset + block.num_bytes <= map.ranges[static_cast<std::size_t>(block.range)].num_bytes);
      blocks.emplace_back(begin, begin + static_cast<std::uint64_t>(block.num_bytes));
    }
    for (const MemoryMap::Segment& segment : map.segments)
      if (is_seen(segment.begin, segment.end, moment)) reserved += segment.num_bytes;
    CHECK(allocated == map.moments[static_cast<std::size_t>(moment)].allocated);
    CHECK(reserved == map.moments[static_cast<std::size_t>(moment)].reserved);
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t i = 1; i < blocks.size(); ++i) CHECK(blocks[i - 1].second <= blocks[i].first);
  }
}

TEST_CASE("What is released behind an allocation without an op between has a moment in which both are held") {
  using Kind = MemoryAction::Kind;
  Program program;
  program.buffers.resize(3);
  MemoryTrace trace;
  trace.step = 4;
  trace.before = {action_of(Kind::acquire, -1, 4096, 8192), action_of(Kind::allocate, 0, 4096, 1024)};
  trace.actions = {action_of(Kind::allocate, 1, 5120, 2048), action_of(Kind::release, 0, 4096, 1024),
                   action_of(Kind::allocate, 2, 4096, 512),  action_of(Kind::release, 2, 4096, 512),
                   action_of(Kind::acquire, -1, 12288, 512), action_of(Kind::give_back, -1, 12288, 512)};
  const MemoryMap map = make_memory_map(program, trace, {});
  REQUIRE(map.moments.size() == 3);
  CHECK(map.peak == 0);
  CHECK(map.moments[0].allocated == 3072);
  CHECK(map.moments[1].allocated == 2560);
  CHECK(map.moments[2].allocated == 2048);
  CHECK(map.moments[2].reserved == 8704);
  CHECK(map.blocks[0].begin == MemoryMap::before_step);
  CHECK(map.blocks[0].end == 1);
  CHECK(map.blocks[1].end == MemoryMap::behind_step);
  CHECK(map.blocks[2].begin == 1);
  CHECK(map.blocks[2].end == 2);
  // Segments that touch stay two.
  REQUIRE(map.ranges.size() == 2);
  CHECK(map.ranges[1].address == 12288);
}

TEST_CASE("A trace in which nothing happens has one moment") {
  const MemoryMap map = make_memory_map(Program{}, MemoryTrace{}, {});
  REQUIRE(map.moments.size() == 1);
  CHECK(map.moments[0].allocated == 0);
}

}  // namespace trainer
