#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "engine/config/load_experiment.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/step_routines.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

/// The most of each category in the first step, summed anew over a set of live buffers after every instruction.
CategoryBytes most_of_each_category(const Program& program, const RunSchedule& schedule) {
  std::set<BufferId> live;
  CategoryBytes most{};
  const auto walk = [&](const Routine& routine, bool counts) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Instruction::Kind::allocate) live.insert(instruction.index);
      if (instruction.kind == Instruction::Kind::release) live.erase(instruction.index);
      CategoryBytes now{};
      for (const BufferId buffer : live) {
        const std::int64_t num_bytes = std::max<std::int64_t>(program.buffers[buffer].num_bytes, 1);
        now[static_cast<std::size_t>(program.buffers[buffer].category)] += (num_bytes + 511) / 512 * 512;
      }
      for (std::size_t i = 0; counts && i < now.size(); ++i) most[i] = std::max(most[i], now[i]);
    }
  };
  walk(program.load, false);
  for_each_step_routine(program, schedule, schedule.step(1),
                        [&](const Routine& routine, bool) { walk(routine, true); });
  return most;
}

}  // namespace

TEST_CASE("the plan tells the most of each category within the step with the peak, not only what the peak is made of") {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [9, 7, 3], classes: 5, samples: 26}\n"
      "model: {layers: [conv2d: {out: 11, kernel: 3}, batchnorm2d, relu, maxpool2d, flatten, gelu: {}, linear: {out: "
      "37}, "
      "tanh, linear: {out: 5}]}\n"
      "optimizer: adamw\ntrain: {batch_size: 13, accumulation_steps: 2}\n",
      "test.yaml");
  const DataDescription data = described_data({9, 7, 3}, 5, 26);
  const Program program = compile(experiment, data, DescribedDevice());
  const RunSchedule schedule(experiment, data);
  const PlanPeak peak = make_memory_plan(program, schedule, unlimited_capacity).peak;
  REQUIRE(peak.step == 1);
  CHECK(peak.category_peaks == most_of_each_category(program, schedule));

  // Somewhere a category is past its highest when the sum of all is at its own.
  bool is_apart = false;
  for (std::size_t i = 0; i < num_categories; ++i) {
    CHECK(peak.category_peaks[i] >= peak.live.by_category[i]);
    is_apart = is_apart || peak.category_peaks[i] > peak.live.by_category[i];
  }
  CHECK(is_apart);
}
