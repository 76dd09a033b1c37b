#include "engine/plan/search/fitting_cut.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/plan/search/fixes.h"
#include "engine/program/compile.h"
#include "engine/program/op_time.h"
#include "engine/program/pipeline/stage_cut.h"
#include "tests/device/described_device.h"

// The search for cuts of a pipeline that fit, against all cuts of small networks planned.

using namespace trainer;

namespace {

using Cut = std::vector<std::string>;

struct CutNetwork {
  const char* name;
  std::string yaml;
  DataDescription data;
  bool has_skip = false;
};

DataDescription described_words(std::int64_t num_tokens, std::int64_t num_classes, std::int64_t num_train) {
  DataDescription data = described_data({num_tokens}, num_classes, num_train);
  data.inputs[0].type.dtype = DType::i32;
  data.target = {DType::i32, {num_tokens}};
  return data;
}

/// Weights in front that take no time, activations that take none, and a skip across stages.
std::vector<CutNetwork> cut_networks() {
  return {{"words",
           "data: {type: synthetic, shape: [16], classes: 32, samples: 96}\n"
           "model: {layers: [{embedding: {num: 3000, dim: 32}}, layernorm, {linear: {out: 96}}, gelu, {linear: {out: "
           "48}}, gelu, {linear: {out: 96}}, gelu, {linear: {out: 64}}, {linear: {out: 32}}]}\n"
           "optimizer: adam\ntrain: {batch_size: 24}\n",
           described_words(16, 32, 96)},
          {"wide in front",
           "data: {type: synthetic, shape: [64], classes: 10, samples: 640}\n"
           "model: {layers: [{linear: {out: 512}}, relu, tanh, gelu, layernorm, {linear: {out: 64}}, relu, {linear: "
           "{out: 256}}, tanh, {linear: {out: 10}}]}\n"
           "optimizer: {type: sgd, momentum: 0.9}\ntrain: {batch_size: 320}\n",
           described_data({64}, 10, 640, 96)},
          // Light layers in front, of which the middle stage has room for two and not for the last, which is large.
          {"wide at the end",
           "data: {type: synthetic, shape: [16, 16, 4], classes: 10, samples: 128}\n"
           "model: {layers: [{conv2d: {out: 4, kernel: 3, padding: 1}}, {conv2d: {out: 4, kernel: 3, padding: 1}}, "
           "{conv2d: {out: 4, kernel: 3, padding: 1}}, {sequential: {layers: [{conv2d: {out: 64, kernel: 1}}, "
           "global_avgpool, {linear: {out: 10}}]}}]}\n"
           "optimizer: sgd\ntrain: {batch_size: 64}\n",
           described_data({16, 16, 4}, 10, 128)},
          {"a skip",
           "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\n"
           "model: {layers: [{conv2d: {out: 16, kernel: 3, padding: 1, name: wide}}, relu, {maxpool2d: {kernel: 2}}, "
           "{conv2d: {out: 32, kernel: 3, padding: 1}}, relu, {upsample: {scale: 2, name: large}}, {concat: {from: "
           "[wide, large]}}, {conv2d: {out: 8, kernel: 3}}, flatten, {linear: {out: 10}}]}\n"
           "optimizer: adam\ntrain: {batch_size: 32}\n",
           described_data({16, 16, 3}, 10, 64), true}};
}

Experiment load_cut(const CutNetwork& each, std::vector<std::string> overrides) {
  return parse_experiment(each.yaml, "test.yaml", overrides);
}

Experiment with_cut(Experiment experiment, const Cut& cut) {
  experiment.parallel.cut = cut;
  return experiment;
}

/// Every list of layers that parallel.cut may be.
std::vector<Cut> all_cuts_of(const Experiment& experiment, const Graph& forward) {
  std::vector<std::string> names;
  for (const GraphNode& node : forward.nodes)
    if (const std::string& path = forward.layers[node.layer].path;
        std::find(names.begin(), names.end(), path) == names.end())
      names.push_back(path);
  std::vector<Cut> cuts;
  const auto num_cuts = static_cast<std::size_t>(experiment.parallel.pipeline - 1);
  std::vector<bool> is_chosen(names.size(), false);
  std::fill(is_chosen.begin(), is_chosen.begin() + static_cast<std::ptrdiff_t>(num_cuts), true);
  do {
    Cut cut;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (is_chosen[i]) cut.push_back(names[i]);
    try {
      cut_into_stages(forward, with_cut(experiment, cut).parallel);
      cuts.push_back(std::move(cut));
    } catch (const ConfigError&) {  // a layer that computes nothing, or the first
    }
  } while (std::prev_permutation(is_chosen.begin(), is_chosen.end()));
  return cuts;
}

double time_of_slowest_stage(const Experiment& cut, const Graph& forward) {
  const StageCut stages = cut_into_stages(forward, cut.parallel);
  std::vector<double> times(static_cast<std::size_t>(cut.parallel.pipeline), 0);
  const LayerId last = forward.values[forward.prediction].layer;
  for (const GraphNode& node : forward.nodes)
    times[static_cast<std::size_t>(stages.chunk_of(std::min(node.layer, last)))] += estimated_time(node.op);
  return *std::max_element(times.begin(), times.end());
}

/// What all cuts of an experiment take, each by the plan of its stages.
struct PlannedCuts {
  struct One {
    double seconds = 0;  ///< of the slowest stage
    std::int64_t peak_reserved = 0;
  };
  std::vector<One> all;

  std::optional<double> fastest_within(std::int64_t capacity) const {
    std::optional<double> fastest;
    for (const One& one : all)
      if (one.peak_reserved <= capacity && (!fastest || one.seconds < *fastest)) fastest = one.seconds;
    return fastest;
  }
};

PlannedCuts plan_all_cuts(Planner& planner, const Experiment& experiment, const DataDescription& data,
                          const Graph& forward) {
  PlannedCuts planned;
  for (const Cut& cut : all_cuts_of(experiment, forward)) {
    const Experiment changed = with_cut(experiment, cut);
    const Verdict verdict = planner.plan(changed, data, std::int64_t{1} << 40);
    if (!verdict.problem) planned.all.push_back({time_of_slowest_stage(changed, forward), verdict.peak_reserved});
  }
  return planned;
}

}  // namespace

TEST_CASE("the cut that is found is the fastest of all cuts that fit, and none is found where none does") {
  for (const CutNetwork& each : cut_networks())
    for (const char* const pipeline : {"2", "3", "4"})
      for (const char* const schedule : {pipeline == std::string("3") ? "gpipe" : "1f1b"}) {
        const Experiment experiment =
            load_cut(each, {"memory.allocator=planned", std::string("parallel.pipeline=") + pipeline,
                            "parallel.micro_batches=6", std::string("parallel.schedule=") + schedule});
        const DescribedDevice device;
        const MachineRates rates = assumed_cpu_rates(1);
        Planner planner(device, rates);
        const Graph forward = make_graph_to_cut(experiment, each.data);
        const PlannedCuts planned = plan_all_cuts(planner, experiment, each.data, forward);
        REQUIRE(planned.all.size() > 3);
        // A byte more and less than what any cut needs, as far as it makes a difference.
        std::set<std::int64_t> capacities;
        for (const PlannedCuts::One& one : planned.all) capacities.insert(one.peak_reserved);
        const std::int64_t step = std::max<std::int64_t>(1, static_cast<std::int64_t>(capacities.size()) / 4);
        std::int64_t i = 0;
        for (const std::int64_t needed : capacities) {
          if (i++ % step != 0) continue;
          for (const std::int64_t capacity : {needed, needed - 1}) {
            INFO(each.name << ", " << pipeline << " stages, " << schedule << ", " << capacity << " bytes");
            const std::optional<double> fastest = planned.fastest_within(capacity);
            const std::optional<Cut> found = find_fitting_cut(planner, experiment, each.data, capacity);
            // What crosses a stage that is longer may be less than what it sends.
            if (each.has_skip && !found) continue;
            REQUIRE(found.has_value() == fastest.has_value());
            if (!found) continue;
            const Experiment cut = with_cut(experiment, *found);
            CHECK(planner.fits(cut, each.data, capacity));
            if (!each.has_skip) CHECK(time_of_slowest_stage(cut, forward) <= 1.021 * *fastest);
          }
        }
      }
}

TEST_CASE("an automatic cut is another where that by time does not fit, on every rank the same") {
  const CutNetwork words = cut_networks().front();
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const std::vector<std::string> layout = {"memory.allocator=planned", "parallel.pipeline=3",
                                           "parallel.micro_batches=6"};
  const Experiment experiment = load_cut(words, layout);
  const std::int64_t by_time = planner.plan(experiment, words.data, std::int64_t{1} << 40).peak_reserved;
  CHECK(with_settled_cut(experiment, words.data, device, by_time).parallel.cut.empty());
  const Experiment settled = with_settled_cut(experiment, words.data, device, by_time - 1);
  REQUIRE(settled.parallel.cut.size() == 2);
  CHECK(planner.fits(settled, words.data, by_time - 1));
  CHECK_THAT(settled_cut_text(experiment, settled),
             Catch::Contains("parallel.cut=[\"" + settled.parallel.cut[0] + "\", "));
  CHECK(settled_cut_text(experiment, experiment).empty());
  for (std::int64_t rank = 1; rank < 3; ++rank) {
    Experiment of_rank = experiment;
    of_rank.parallel.rank = rank;
    CHECK(with_settled_cut(of_rank, words.data, device, by_time - 1).parallel.cut == settled.parallel.cut);
  }
  // What is named stays, what has no other cut, and what fits with none.
  const Experiment named = with_cut(experiment, {"1", "2"});
  CHECK(with_settled_cut(named, words.data, device, by_time / 4).parallel.cut == named.parallel.cut);
  CHECK(with_settled_cut(experiment, words.data, device, by_time / 4).parallel.cut.empty());
  for (const char* const other : {"parallel.pipeline=1", "parallel.schedule=interleaved"}) {
    std::vector<std::string> overrides = layout;
    overrides.emplace_back(other);
    CHECK(with_settled_cut(load_cut(words, overrides), words.data, device, by_time / 2).parallel.cut.empty());
  }
}

TEST_CASE("of a pipeline other stages and more micro-batches are offered, and fit when they are pasted") {
  const std::set<std::string> keys = {"parallel.cut", "parallel.micro_batches"};
  std::set<std::string> offered;
  for (const CutNetwork& each : cut_networks())
    for (const char* const first : {"1", "3"}) {
      const std::vector<std::string> layout = {"memory.allocator=caching", "parallel.pipeline=2",
                                               "parallel.micro_batches=2", std::string("parallel.cut=[") + first + "]"};
      const Experiment experiment = load_cut(each, layout);
      const DescribedDevice device;
      const MachineRates rates = assumed_cpu_rates(1);
      Planner planner(device, rates);
      const Verdict as_is = planner.plan(experiment, each.data, std::int64_t{1} << 40);
      if (as_is.problem) continue;
      const Graph forward = make_graph_to_cut(experiment, each.data);
      const std::vector<Cut> cuts = all_cuts_of(experiment, forward);
      for (const double share : {0.95, 0.2}) {
        const auto capacity = static_cast<std::int64_t>(share * static_cast<double>(as_is.peak_reserved));
        INFO(each.name << ", cut at " << first << ", " << capacity << " bytes");
        bool offers_cut = false;
        for (const Change& fix : find_advice(planner, experiment, each.data, capacity).fixes) {
          const std::string key = fix.set.front().substr(0, fix.set.front().find('='));
          if (fix.set.size() != 1 || !keys.contains(key)) continue;
          offered.insert(key);
          offers_cut = offers_cut || key == "parallel.cut";
          std::vector<std::string> overrides = layout;
          overrides.push_back(fix.set.front());
          const Experiment pasted = load_cut(each, overrides);
          INFO(fix.set.front());
          const Verdict verdict = planner.plan(pasted, each.data, capacity);
          CHECK(verdict.fits);
          CHECK(verdict.peak_reserved == fix.peak_reserved);
          CHECK(fix.relative_step_time > 0);
          CHECK(fix.same_result());
        }
        // A caching allocator gives back what it keeps before it runs out, so peaks without a bound do not tell.
        const bool one_fits = std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) {
          return planner.fits(with_cut(experiment, cut), each.data, capacity);
        });
        if (!one_fits) CHECK_FALSE(offers_cut);
      }
    }
  CHECK(offered == keys);
}
