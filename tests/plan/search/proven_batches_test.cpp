#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/find_maximum.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/lent_places.h"
#include "tests/device/described_device.h"

namespace trainer {
namespace {

/// As a library's planner: scratch of convolutions goes up and down with the batch size within their limit, that of
/// products by a rule that is no better. Counts what it was asked of convolutions.
class JaggedScratchDevice final : public DescribedDevice {
 public:
  explicit JaggedScratchDevice(bool knows_bound) : knows_bound_(knows_bound) {}
  std::int64_t workspace_bytes(const Op& op) const override {
    if (const auto* const conv2d = std::get_if<Conv2dAttributes>(&op.attributes)) {
      ++num_asked_;
      return static_cast<std::int64_t>(jagged(op) % 5) * conv2d->workspace_limit / 4;
    }
    return scratch_of_rule(op);
  }
  std::int64_t most_workspace_bytes(const Op& op) const override {
    if (!knows_bound_) return unknown_workspace_bytes;
    const auto* const conv2d = std::get_if<Conv2dAttributes>(&op.attributes);
    return conv2d != nullptr ? conv2d->workspace_limit : scratch_of_rule(op);
  }
  std::int64_t num_asked() const { return num_asked_; }

 private:
  /// As erratic as a hash, but of shapes alone, so that it is the same whichever ops there are.
  static std::uint32_t jagged(const Op& op) {
    std::uint32_t bits = 2166136261U;
    for (const TensorType& type : op.inputs)
      for (const std::int64_t dim : type.shape) bits = (bits ^ static_cast<std::uint32_t>(dim)) * 16777619U;
    return bits >> 7U;
  }
  static std::int64_t scratch_of_rule(const Op& op) {
    if (!std::holds_alternative<LinearAttributes>(op.attributes)) return 0;
    const std::int64_t rows = op.inputs.front().shape[0];
    return rows < 40 ? 9'000 * (1 + rows % 7) : 1'000;
  }

  bool knows_bound_;
  mutable std::int64_t num_asked_ = 0;
};

struct ProvenNetwork {
  const char* name;
  std::string layers, rest;
};

const std::vector<ProvenNetwork>& proven_networks() {
  static const std::vector<ProvenNetwork> all = {
      {"plain",
       "[{conv2d: {out: 8, kernel: 3, padding: 1}}, relu, {conv2d: {out: 5, kernel: 3}}, relu, flatten, {linear: {out: "
       "10}}]",
       "train: {batch_size: 8, eval_batch_size: 7}\n"},
      {"residual",
       "[{conv2d: {out: 6, kernel: 3, padding: 1, bias: false}}, batchnorm2d, relu, {residual: {layers: [{conv2d: "
       "{out: 6, "
       "kernel: 3, padding: 1, bias: false}}, batchnorm2d, relu, {conv2d: {out: 6, kernel: 3, padding: 1, bias: "
       "false}}, "
       "batchnorm2d]}}, relu, {maxpool2d: {kernel: 2, stride: 2}}, {conv2d: {out: 12, kernel: 3}}, batchnorm2d, relu, "
       "global_avgpool, {linear: {out: 10}}]",
       "train: {batch_size: 8}\n"},
      {"accumulating",
       "[{conv2d: {out: 7, kernel: 3, padding: 1}}, gelu, {conv2d: {out: 7, kernel: 3}}, gelu, flatten, {linear: {out: "
       "10}}]",
       "train: {batch_size: 8, accumulation_steps: 3}\nmemory: {update: at_end}\n"},
      {"planned",
       "[{conv2d: {out: 8, kernel: 3, padding: 1}}, silu, {conv2d: {out: 9, kernel: 2, stride: 2}}, silu, flatten, "
       "{linear: {out: 33}}, relu, {linear: {out: 10}}]",
       "train: {batch_size: 8}\nmemory: {allocator: planned}\n"}};
  return all;
}

Experiment proven_experiment(const ProvenNetwork& network) {
  return parse_experiment(
      "data: {type: synthetic, shape: [9, 9, 3], classes: 10, samples: 150, validation_samples: 31}\n"
      "model: {layers: " +
          network.layers + "}\noptimizer: {type: adam, lr: 0.001}\n" + network.rest +
          (network.rest.find("memory") == std::string::npos ? "memory: {workspace_limit: 60KiB}\n" : ""),
      network.name);
}

DataDescription proven_data() { return described_data({9, 9, 3}, 10, 150, 31); }

Experiment at_batch(Experiment experiment, std::int64_t batch_size) {
  experiment.train.batch_size = batch_size;
  return experiment;
}

std::vector<std::int64_t> proven_capacities(const Experiment& experiment, const DeviceModel& device) {
  // What the places of some batches take, and what is next to that.
  std::vector<std::int64_t> capacities;
  for (const std::int64_t batch_size : {23, 61, 97, 149}) {
    const Experiment planned = with_allocator(at_batch(experiment, batch_size), AllocatorKind::planned);
    const std::int64_t bytes = compile(planned, proven_data(), device).placement->segment_bytes;
    capacities.insert(capacities.end(), {bytes - 512, bytes + 70'000});
  }
  return capacities;
}

}  // namespace

TEST_CASE("the largest batch is exact: planning each value finds that all up to it fit and the next does not",
          "[exhaustive]") {
  const DataDescription data = proven_data();
  const MachineRates rates = assumed_cpu_rates(1);
  std::int64_t num_proven = 0;
  for (const ProvenNetwork& network : proven_networks()) {
    Experiment experiment = proven_experiment(network);
    experiment.memory.workspace_limit = 60 << 10;
    const JaggedScratchDevice device(true);
    for (const std::int64_t capacity : proven_capacities(experiment, device)) {
      INFO(network.name << " in " << capacity);
      Planner searching(device, rates), planning(device, rates);
      const LargestValue found = find_largest_batch(searching, experiment, data, capacity);
      std::int64_t largest = 0;
      while (largest < 150 && planning.fits(at_batch(experiment, largest + 1), data, capacity)) ++largest;
      REQUIRE(found.value.value_or(0) == largest);
      if (!found.value) continue;
      CHECK(found.known_from == 1);
      CHECK(found.next == (largest < 150 ? std::optional(largest + 1) : std::nullopt));
      CHECK(found.num_proven + found.num_smaller == largest - 1);
      num_proven += found.num_proven;
    }
  }
  CHECK(num_proven > 100);
}

TEST_CASE("the search for the largest batch asks a library little where it knows a bound of scratch") {
  const Experiment experiment = proven_experiment(proven_networks()[1]);
  const MachineRates rates = assumed_cpu_rates(1);
  const std::int64_t capacity = 1 << 20;
  std::vector<std::int64_t> asked;
  for (const bool knows_bound : {true, false}) {
    const JaggedScratchDevice device(knows_bound);
    Planner planner(device, rates);
    const LargestValue found = find_largest_batch(planner, experiment, proven_data(), capacity);
    REQUIRE(found.value.has_value());
    CHECK((found.num_proven > 0) == knows_bound);
    asked.push_back(device.num_asked());
  }
  CHECK(2 * asked[0] < asked[1]);
}

TEST_CASE("places of a larger batch hold a smaller one, its odd last batch and its evaluations") {
  const DataDescription data = proven_data();
  const JaggedScratchDevice device(true);
  for (const ProvenNetwork& network : proven_networks()) {
    Experiment experiment = with_allocator(proven_experiment(network), AllocatorKind::planned);
    experiment.memory.workspace_limit = 60 << 10;
    for (const std::int64_t batch_size : {1, 2, 31, 32, 40, 74, 75, 76, 148, 149, 150}) {
      for (const std::int64_t lender : {batch_size, batch_size + 1, std::int64_t{150}}) {
        if (lender > 150) continue;
        if (RunSchedule(at_batch(experiment, lender), data).accumulates() !=
            RunSchedule(at_batch(experiment, batch_size), data).accumulates())
          continue;
        INFO(network.name << ": " << batch_size << " in the places of " << lender);
        Experiment lent = at_batch(experiment, batch_size);
        lent.memory.places = {.batch_size = lender, .capacity = unlimited_capacity};
        const Program program = compile(lent, data, device);
        const RunSchedule schedule(lent, data);
        // Throws where two blocks overlap, or one reaches beyond the segment.
        const MemoryPlan plan =
            make_memory_plan(program, schedule, program.placement->segment_bytes, allocator_options(lent));
        CHECK(plan.fits);
        CHECK(plan.peak_reserved == program.placement->segment_bytes);
        CHECK(plan.peak_allocated <= plan.peak_reserved);
      }
    }
  }
}

TEST_CASE("what needs the places of a larger batch gets them when it is settled, and only then") {
  const DataDescription data = proven_data();
  const JaggedScratchDevice device(true);
  int num_lent = 0;
  for (const ProvenNetwork& network : proven_networks()) {
    Experiment experiment = proven_experiment(network);
    experiment.memory.workspace_limit = 60 << 10;
    for (std::int64_t batch_size = 20; batch_size < 150; batch_size += 13) {
      const Experiment own = with_allocator(at_batch(experiment, batch_size), AllocatorKind::planned);
      const std::int64_t own_bytes = compile(own, data, device).placement->segment_bytes;
      for (const std::int64_t less : {0, 512, 2048, 16'384}) {
        const std::int64_t capacity = own_bytes - less;
        const CompiledExperiment compiled =
            compile_experiment(at_batch(experiment, batch_size), data, device, capacity);
        const MemoryPlan plan = plan_memory(compiled, capacity);
        const bool is_lent = compiled.experiment.memory.places.batch_size > 0;
        INFO(network.name << ": " << batch_size << " in " << capacity);
        if (less == 0) CHECK_FALSE(is_lent);
        if (less == 0 || is_lent) CHECK(plan.fits);
        num_lent += is_lent ? 1 : 0;
        const MachineRates rates = assumed_cpu_rates(1);
        Planner planner(device, rates);
        CHECK(planner.fits(at_batch(experiment, batch_size), data, capacity) == plan.fits);
      }
    }
  }
  CHECK(num_lent > 0);
}

}  // namespace trainer
