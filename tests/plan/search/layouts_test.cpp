#include "engine/plan/search/layouts/find_layouts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/layouts/layout_estimates.h"
#include "engine/program/run_schedule.h"
#include "tests/device/described_device.h"

// The search for layouts of ranks, against all of them planned.

using namespace trainer;

namespace {

struct Network {
  const char* name;
  std::string yaml;
  DataDescription data;
  std::vector<std::int64_t> num_ranks;  ///< for which all layouts are planned
};

DataDescription described_tokens(std::int64_t num_tokens, std::int64_t num_classes, std::int64_t num_train) {
  DataDescription data = described_data({num_tokens}, num_classes, num_train);
  data.inputs[0].type.dtype = DType::i32;
  data.target = {DType::i32, {num_tokens}};
  return data;
}

/// Places for every buffer take long to find.
const std::string caching_blocks = "memory: {allocator: caching}\n";

std::vector<Network> networks() {
  std::vector<Network> all;
  all.push_back({"MLP",
                 "data: {type: synthetic, shape: [256], classes: 10, samples: 640}\n"
                 "model: {layers: [{repeat: {times: 9, layers: [{linear: {out: 512}}, relu]}}, {linear: {out: 10}}]}\n"
                 "optimizer: adam\ntrain: {batch_size: 64}\n",
                 described_data({256}, 10, 640),
                 {2, 6, 8}});
  all.push_back({"CNN",
                 "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 160}\n"
                 "model: {layers: [{repeat: {times: 6, layers: [{conv2d: {out: 32, kernel: 3}}, relu]}}, flatten, "
                 "{linear: {out: 256}}, relu, {linear: {out: 10}}]}\n"
                 "optimizer: {type: sgd, momentum: 0.9}\ntrain: {batch_size: 32}\n",
                 described_data({16, 16, 3}, 10, 160),
                 {3, 4}});
  all.push_back({"skips",
                 "data: {type: synthetic, shape: [128], classes: 10, samples: 96}\n"
                 "model: {layers: [{linear: {out: 256}}, {repeat: {times: 5, layers: [{residual: {layers: [layernorm, "
                 "{linear: {out: 1024}}, gelu, {linear: {out: 256}}]}}]}}, {linear: {out: 10}}]}\n"
                 "optimizer: adamw\ntrain: {batch_size: 48, amp: bf16}\n",
                 described_data({128}, 10, 96),
                 {3, 5}});
  all.push_back(
      {"GPT",
       "data: {type: synthetic, shape: [32], classes: 300, samples: 64}\n"
       "model: {layers: [{embedding: {num: 300, dim: 64, name: wte}}, {position_embedding: {length: 32}}, "
       "{repeat: {times: 4, layers: [{residual: {layers: [layernorm, {linear: {out: 192}}, {attention: {heads: "
       "4, causal: true}}, {linear: {out: 64}}]}}, {residual: {layers: [layernorm, {linear: {out: 256}}, gelu, "
       "{linear: {out: 64}}]}}]}}, layernorm, {linear: {out: 300, bias: false, share: wte}}]}\n"
       "optimizer: adamw\ntrain: {batch_size: 32}\n",
       described_tokens(32, 300, 64),
       {2, 3}});
  return all;
}

/// Machines of some CPUs, or of GPUs with a fast and a slow network.
struct Machines {
  const char* name;
  double flops_per_second, within, between;  ///< bytes a second
};
constexpr Machines all_machines[] = {{"quick links", 60e9, 10e9, 10e9}, {"slow network", 60e9, 10e9, 0.5e9}};

MachineRates rates_of(const Machines& machines, std::int64_t ranks_per_node) {
  MachineRates rates = assumed_cpu_rates(1);
  rates.links.within = {"a wire", machines.within, 1e-6, 1e-6};
  rates.links.between = {"a network", machines.between, 5e-6, 5e-6};
  rates.links.call_seconds = rates.links.quick_call_seconds = 1e-6;
  rates.links.ranks_per_node = ranks_per_node;
  return rates;
}

Experiment loaded_network(const Network& each) { return parse_experiment(each.yaml + caching_blocks, "test.yaml"); }

/// "train: {accumulation_steps: 2}" with what the network has of that section.
Network with_setting(Network each, const std::string& setting) {
  if (setting.starts_with("train: {"))
    each.yaml.replace(each.yaml.find("train: {"), 8, setting.substr(0, setting.size() - 1) + ", ");
  else
    each.yaml += setting + "\n";
  return each;
}

Experiment load_layout_of(const Network& each, const ParallelConfig& own, const Layout& layout) {
  return parse_experiment(each.yaml + caching_blocks, "test.yaml", layout_overrides(own, layout));
}

Experiment with_sqrt(Experiment experiment) {
  experiment.train.checkpointing = {.type = CheckpointingConfig::Type::sqrt, .every = 0, .layers = {}};
  return experiment;
}

/// The time of the fastest of all that fits, with what is too large computed again.
std::optional<double> fastest_of_all(Planner& planner, const Network& each, const Experiment& own,
                                     const LayoutSpace& space, std::int64_t capacity) {
  std::optional<double> fastest;
  for (const Layout& layout : all_layouts(own, each.data, space)) {
    const Experiment experiment = load_layout_of(each, own.parallel, layout);
    Verdict verdict = planner.plan(experiment, each.data, capacity);
    if (!verdict.problem && !verdict.fits) verdict = planner.plan(with_sqrt(experiment), each.data, capacity);
    if (verdict.fits && (!fastest || verdict.time.seconds < *fastest)) fastest = verdict.time.seconds;
  }
  return fastest;
}

}  // namespace

TEST_CASE("the fastest layout that is found is within 3 % of the fastest of all layouts planned") {
  for (const Network& each : networks())
    for (const Machines& machines : all_machines)
      for (const std::int64_t num_ranks : each.num_ranks) {
        const std::int64_t per_node = num_ranks > 4 ? num_ranks / 2 : num_ranks;
        const MachineRates rates = rates_of(machines, per_node);
        const DescribedDevice device;
        Planner planner(device, rates);
        const Experiment own = loaded_network(each);
        const LayoutSpace space{.num_ranks = num_ranks, .most_tensor = per_node};
        const LoadLayout load_layout = [&](const Layout& layout) { return load_layout_of(each, own.parallel, layout); };
        std::int64_t capacity = unlimited_capacity;
        for (int times = 0; times < (num_ranks > 4 ? 1 : 2); ++times) {
          INFO(each.name << ", " << machines.name << ", " << num_ranks << " ranks, " << capacity << " bytes");
          const LayoutFindings findings = find_layouts(planner, own, each.data, [&](const Layout&) { return capacity; },
                                                       space, load_layout, {.num_wanted = 3});
          const std::optional<double> fastest = fastest_of_all(planner, each, own, space, capacity);
          REQUIRE(fastest.has_value() == !findings.found.empty());
          if (!fastest) break;
          const Verdict& best = findings.found.front().verdict;
          CHECK(best.time.seconds <= 1.03 * *fastest);
          CHECK(findings.num_planned < findings.num_layouts);
          // Next with what the fastest does not fit into, which takes longer.
          capacity = best.peak_reserved - 1;
        }
      }
}

TEST_CASE("estimates of layouts are not above their plans by more than is allowed for") {
  const std::string settings[] = {"", "train: {checkpointing: sqrt}", "parallel: {overlap: false}",
                                  "train: {accumulation_steps: 3}"};
  for (const Network& each : networks())
    for (const std::string& setting : settings) {
      const std::int64_t num_ranks = setting.empty() ? 8 : 4;
      const MachineRates rates = rates_of(all_machines[setting.empty() ? 0 : 1], num_ranks / 2);
      const DescribedDevice device;
      Planner planner(device, rates);
      const Network set = with_setting(each, setting);
      const Experiment own = loaded_network(set);
      LayoutEstimates estimates(own, set.data, device, rates);
      for (const Layout& layout : all_layouts(own, set.data, {.num_ranks = num_ranks, .most_tensor = num_ranks / 2})) {
        INFO(set.name << ", " << setting << ", " << layout.data << " x " << layout.pipeline << " x " << layout.tensor
                      << ", schedule " << static_cast<int>(layout.schedule) << ", " << layout.micro_batches
                      << " micro-batches, shard " << static_cast<int>(layout.shard));
        const Verdict verdict = planner.plan(load_layout_of(set, own.parallel, layout), set.data, unlimited_capacity);
        if (verdict.problem) continue;
        const LayoutEstimate estimate = estimates.of(layout);
        const double ratio = estimate.step_seconds / verdict.time.seconds;
        const double held = static_cast<double>(estimate.held_bytes) / static_cast<double>(verdict.peak_reserved);
        CHECK((1 - most_too_high) * ratio <= 1);
        CHECK((1 - most_too_high) * held <= 1);
      }
    }
}
