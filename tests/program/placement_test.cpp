#include "engine/program/placement.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/plan/step_routines.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Kind = Instruction::Kind;

namespace {

const std::string placed_layers =
    "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n"
    "model:\n  layers:\n"
    "    - conv2d: {out: 6, kernel: 3, padding: 1}\n"
    "    - relu\n"
    "    - residual: {layers: [{conv2d: {out: 6, kernel: 3, padding: 1}}, batchnorm2d, silu]}\n"
    "    - relu\n"
    "    - maxpool2d: {kernel: 2}\n"
    "    - flatten\n"
    "    - linear: {out: 31}\n"
    "    - layernorm\n"
    "    - gelu\n"
    "    - linear: {out: 10}\n";

/// What is live, by offset; walks routines and refuses a buffer whose place is taken.
class Segment {
 public:
  explicit Segment(const Program& program) : program_(program) {}

  void walk(const Routine& routine) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Kind::allocate) put(instruction.index);
      if (instruction.kind == Kind::release) take(instruction.index);
    }
  }
  std::int64_t peak() const { return peak_; }
  std::size_t num_live() const { return ends_.size(); }

 private:
  void put(BufferId buffer) {
    const std::int64_t begin = program_.placement->offsets.at(static_cast<std::size_t>(buffer));
    const std::int64_t num_blocks = std::max<std::int64_t>((program_.buffers[buffer].num_bytes + 511) / 512, 1);
    const std::int64_t end = begin + 512 * num_blocks;
    REQUIRE(begin % 512 == 0);
    REQUIRE(end <= program_.placement->segment_bytes);
    const auto above = ends_.lower_bound(begin);
    REQUIRE((above == ends_.end() || end <= above->first));
    REQUIRE((above == ends_.begin() || std::prev(above)->second <= begin));
    ends_[begin] = end;
    live_bytes_ += end - begin;
    peak_ = std::max(peak_, live_bytes_);
  }
  void take(BufferId buffer) {
    const auto found = ends_.find(program_.placement->offsets.at(static_cast<std::size_t>(buffer)));
    REQUIRE(found != ends_.end());
    live_bytes_ -= found->second - found->first;
    ends_.erase(found);
  }

  const Program& program_;
  std::map<std::int64_t, std::int64_t> ends_;  // by begin
  std::int64_t live_bytes_ = 0, peak_ = 0;
};

}  // namespace

TEST_CASE("every buffer of a run has a place of its own while it lives, in any order of steps and evaluations") {
  const std::vector<std::string> variants = {
      "train: {batch_size: 7}\n",
      "train: {batch_size: 64}\noptimizer: {type: adamw}\n",
      "train: {batch_size: 5, accumulation_steps: 3}\noptimizer: {type: sgd, momentum: 0.9}\n",
      "train: {batch_size: 1, accumulation_steps: 7, clip_norm: 1}\n",
      "train: {batch_size: all}\n",
      "train: {batch_size: 9, accumulation_steps: 8, checkpointing: sqrt}\noptimizer: {type: adam}\n",
      "train: {batch_size: 8}\n",
  };
  std::mt19937 random(23);
  for (const std::string& variant : variants) {
    for (const std::string& memory : {std::string(), std::string("  update: in_backward\n")}) {
      if (!memory.empty() &&
          (variant.find("accumulation") != std::string::npos || variant.find("clip") != std::string::npos))
        continue;
      INFO(variant << memory);
      const Experiment experiment =
          parse_experiment(placed_layers + variant + "memory:\n  allocator: planned\n" + memory, "test.yaml");
      const DataDescription data = described_data({8, 8, 3}, 10, 64, 20);
      const Program program = compile(experiment, data, DescribedDevice(5'001));
      REQUIRE(program.placement);
      const RunSchedule schedule(experiment, data);
      Segment segment(program);
      segment.walk(program.load);
      segment.walk(program.refresh);
      const std::size_t num_persistent = segment.num_live();
      for (int i = 0; i < 30; ++i) {
        const auto step =
            static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(schedule.steps_per_epoch()));
        for_each_step_routine(program, schedule, schedule.step(step),
                              [&](const Routine& routine, bool) { segment.walk(routine); });
        CHECK(segment.num_live() == num_persistent);
        if (random() % 3 == 0) segment.walk(program.evaluations[random() % program.evaluations.size()]);
      }
      CHECK(program.placement->segment_bytes >= segment.peak());
      CHECK(static_cast<double>(program.placement->segment_bytes) <= 1.01 * static_cast<double>(segment.peak()));
    }
  }
}

TEST_CASE("only memory.allocator: planned gives buffers places") {
  const Experiment experiment = parse_experiment(placed_layers, "test.yaml");
  CHECK_FALSE(compile(experiment, described_data({8, 8, 3}, 10, 64), DescribedDevice()).placement);
}

TEST_CASE("micro-batches of both sizes and evaluations share bytes; what is loaded shares none") {
  const Experiment experiment =
      parse_experiment(placed_layers + "train: {batch_size: 9}\nmemory: {allocator: planned}\n", "test.yaml");
  const Program program = compile(experiment, described_data({8, 8, 3}, 10, 64, 20), DescribedDevice());
  const BufferLifetimes lifetimes = find_lifetimes(program);
  std::int64_t sum = 0;
  for (const PlacedItem& item : lifetimes.items) sum += item.num_bytes;
  CHECK(sum > 2 * program.placement->segment_bytes);
  const auto lifetime_of = [&](BufferId buffer) {
    const auto found = std::find(lifetimes.buffers.begin(), lifetimes.buffers.end(), buffer);
    return lifetimes.items[static_cast<std::size_t>(found - lifetimes.buffers.begin())];
  };
  const PlacedItem whole = lifetime_of(program.micro_batches[0].first.fields.front());
  const PlacedItem odd = lifetime_of(program.micro_batches[1].first.fields.front());
  const PlacedItem weight = lifetime_of(program.parameter_buffers[0]);
  CHECK((whole.intervals[0].end <= odd.intervals[0].begin || odd.intervals[0].end <= whole.intervals[0].begin));
  REQUIRE(weight.intervals.size() == 1);
  CHECK(weight.intervals[0].end == lifetimes.items[0].intervals[0].end);
  CHECK(weight.intervals[0].begin < whole.intervals[0].begin);
  CHECK(weight.intervals[0].end > odd.intervals[0].end);
}

TEST_CASE("a program that no machine holds gets a segment that no capacity grants") {
  Program program;
  program.buffers.push_back({"a", no_layer, Category::activation, {}, std::int64_t{1} << 62});
  program.buffers.push_back({"b", no_layer, Category::activation, {}, std::int64_t{1} << 62});
  for (const BufferId buffer : {0, 1}) program.load.instructions.push_back({Kind::allocate, buffer});
  place(program);
  REQUIRE(program.placement);
  CHECK(program.placement->segment_bytes > std::int64_t{1} << 60);
  CHECK(program.placement->offsets.size() == 2);
}
