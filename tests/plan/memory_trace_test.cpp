// A traced step, replayed by sets of bytes alone: no block lies outside what is held or over another, and its sums are
// those of the plan.

#include "engine/plan/memory_trace.h"

#include <catch2/catch.hpp>
#include <map>

#include "engine/config/load_experiment.h"
#include "engine/plan/allocator_options.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

namespace trainer {

namespace {

/// Pieces of memory that lie apart from each other: begin to end.
class ApartPieces {
 public:
  /// False where it would lie over another.
  bool add(std::uint64_t begin, std::int64_t num_bytes) {
    const std::uint64_t end = begin + static_cast<std::uint64_t>(num_bytes);
    const auto next = pieces_.lower_bound(begin);
    if (next != pieces_.end() && next->first < end) return false;
    if (next != pieces_.begin() && std::prev(next)->second > begin) return false;
    pieces_[begin] = end;
    sum_ += num_bytes;
    return true;
  }
  bool remove(std::uint64_t begin, std::int64_t num_bytes) {
    const auto found = pieces_.find(begin);
    if (found == pieces_.end() || found->second != begin + static_cast<std::uint64_t>(num_bytes)) return false;
    pieces_.erase(found);
    sum_ -= num_bytes;
    return true;
  }
  /// Whether all of it lies in pieces that may follow each other without a gap.
  bool hold(std::uint64_t begin, std::int64_t num_bytes) const {
    const std::uint64_t end = begin + static_cast<std::uint64_t>(num_bytes);
    auto piece = pieces_.upper_bound(begin);
    if (piece == pieces_.begin()) return false;
    --piece;
    while (piece != pieces_.end() && piece->first <= begin && begin < piece->second) {
      begin = piece->second;
      if (begin >= end) return true;
      ++piece;
    }
    return false;
  }
  std::int64_t sum() const { return sum_; }

 private:
  std::map<std::uint64_t, std::uint64_t> pieces_;
  std::int64_t sum_ = 0;
};

struct Replay {
  ApartPieces segments, blocks;
  std::int64_t peak_allocated = 0, peak_reserved = 0;
  std::int64_t num_ops = 0;

  void take(const MemoryAction& action) {
    CAPTURE(static_cast<int>(action.kind), action.index, action.address, action.num_bytes);
    switch (action.kind) {
      case MemoryAction::Kind::run:
        ++num_ops;
        return;
      case MemoryAction::Kind::acquire:
      case MemoryAction::Kind::map:
        REQUIRE(segments.add(action.address, action.num_bytes));
        break;
      case MemoryAction::Kind::give_back:
      case MemoryAction::Kind::unmap:
        REQUIRE(segments.remove(action.address, action.num_bytes));
        break;
      case MemoryAction::Kind::allocate:
        REQUIRE(segments.hold(action.address, action.num_bytes));
        REQUIRE(blocks.add(action.address, action.num_bytes));
        break;
      case MemoryAction::Kind::release:
        REQUIRE(blocks.remove(action.address, action.num_bytes));
        break;
    }
    peak_allocated = std::max(peak_allocated, blocks.sum());
    peak_reserved = std::max(peak_reserved, segments.sum());
  }
};

struct TracedCase {
  std::string name, settings;
  bool evaluates_most = false;
};

void check_trace(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
  const Program program = compile(experiment, data, DescribedDevice(300'000));
  const RunSchedule schedule(experiment, data);
  const CachingAllocatorOptions options = allocator_options(experiment);
  const MemoryPlan plan = make_memory_plan(program, schedule, capacity, options);
  REQUIRE(plan.fits);
  const MemoryTrace trace = trace_peak(program, schedule, plan, options);
  CHECK(trace.step == plan.peak.step);
  CHECK(trace.evaluation == plan.peak.evaluation);
  Replay replay;
  for (const MemoryAction& action : trace.before) replay.take(action);
  for (const MemoryAction& action : trace.actions) replay.take(action);
  const StepMemory* const planned = plan.find(trace.step, trace.evaluation);
  REQUIRE(planned != nullptr);
  CHECK(replay.peak_allocated == plan.peak.allocated);
  CHECK(replay.peak_reserved == planned->peak_reserved);
  CHECK(replay.blocks.sum() == planned->allocated);
  CHECK(replay.segments.sum() == planned->reserved);
  CHECK(replay.num_ops > 0);
}

}  // namespace

TEST_CASE("A traced step is that of the plan, block by block") {
  const TracedCase example =
      GENERATE(TracedCase{"as it is", "train: {batch_size: 24}\n"},
               TracedCase{"accumulating", "train: {batch_size: 10, accumulation_steps: 2}\n"},
               TracedCase{"planned", "train: {batch_size: 24}\nmemory: {allocator: planned}\n"},
               TracedCase{"expandable", "train: {batch_size: 24}\nmemory: {expandable_segments: true}\n"},
               TracedCase{"checkpointing", "train: {batch_size: 24, checkpointing: sqrt}\n"},
               TracedCase{"evaluating", "train: {batch_size: 1, eval_batch_size: 64}\n", true});
  CAPTURE(example.name);
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64, validation_samples: 64}\n"
      "model: {layers: [{conv2d: {out: 24, kernel: 3, padding: 1}}, batchnorm2d, relu, {conv2d: {out: 24, kernel: 3, "
      "padding: 1}}, relu, flatten, {linear: {out: 10}}]}\noptimizer: {type: adam, lr: 0.001}\n" +
          example.settings,
      "test.yaml");
  const DataDescription data = described_data({16, 16, 3}, 10, 64, 64);
  check_trace(experiment, data, unlimited_capacity);
  const Program program = compile(experiment, data, DescribedDevice(300'000));
  const RunSchedule schedule(experiment, data);
  const MemoryPlan plan = make_memory_plan(program, schedule, unlimited_capacity, allocator_options(experiment));
  CHECK(plan.peak.evaluation == example.evaluates_most);
}

TEST_CASE("A traced step whose layout was undone holds what was placed anew") {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\n"
      "model: {layers: [{conv2d: {out: 96, kernel: 3, padding: 1}}, relu, {conv2d: {out: 33, kernel: 3, padding: 1}}, "
      "relu, {conv2d: {out: 70, kernel: 3, padding: 1}}, relu, flatten, {linear: {out: 10}}]}\n"
      "optimizer: {type: adam, lr: 0.001}\ntrain: {batch_size: 64}\n",
      "test.yaml");
  const DataDescription data = described_data({16, 16, 3}, 10, 64, 64);
  const Program program = compile(experiment, data, DescribedDevice(300'000));
  const RunSchedule schedule(experiment, data);
  const MemoryPlan whole = make_memory_plan(program, schedule, unlimited_capacity, allocator_options(experiment));
  // Just below what the caching allocator takes, layouts are placed: Note [Placed layouts].
  std::int64_t capacity = whole.peak_reserved;
  MemoryPlan plan = whole;
  while (plan.fits && plan.first_placed_step < 0 && capacity > whole.peak_allocated) {
    capacity -= std::int64_t{1} << 20;
    plan = make_memory_plan(program, schedule, capacity, allocator_options(experiment));
  }
  REQUIRE(plan.first_placed_step >= 0);
  REQUIRE(plan.fits);
  check_trace(experiment, data, capacity);
}

TEST_CASE("A traced step in which memory runs out ends with what is held then") {
  const bool is_expandable = GENERATE(false, true);
  CAPTURE(is_expandable);
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\n"
      "model: {layers: [{conv2d: {out: 96, kernel: 3, padding: 1}}, relu, {conv2d: {out: 33, kernel: 3, padding: 1}}, "
      "relu, flatten, {linear: {out: 10}}]}\noptimizer: {type: adam, lr: 0.001}\n"
      "train: {batch_size: 64}\nmemory: {expandable_segments: " +
          std::string(is_expandable ? "true" : "false") + "}\n",
      "test.yaml");
  const DataDescription data = described_data({16, 16, 3}, 10, 64, 64);
  const Program program = compile(experiment, data, DescribedDevice(300'000));
  const RunSchedule schedule(experiment, data);
  const CachingAllocatorOptions options = allocator_options(experiment);
  const MemoryPlan whole = make_memory_plan(program, schedule, unlimited_capacity, options);
  int num_traced = 0;
  for (std::int64_t capacity = whole.peak_allocated; capacity > 0; capacity -= whole.peak_allocated / 7) {
    CAPTURE(capacity);
    const MemoryPlan plan = make_memory_plan(program, schedule, capacity, options);
    if (plan.fits) continue;
    const MemoryTrace trace = trace_failure(program, schedule, plan, options);
    CHECK(trace.step == plan.failure->step);
    CHECK(trace.evaluation == plan.failure_in_evaluation);
    Replay replay;
    for (const MemoryAction& action : trace.before) replay.take(action);
    for (const MemoryAction& action : trace.actions) replay.take(action);
    const MemoryStatistics& statistics = plan.failure->failure.statistics;
    CHECK(replay.blocks.sum() == statistics.allocated_bytes.all.current);
    CHECK(replay.segments.sum() == statistics.reserved_bytes.all.current);
    CHECK(replay.peak_reserved <= capacity);
    ++num_traced;
  }
  CHECK(num_traced >= 5);
}

}  // namespace trainer
