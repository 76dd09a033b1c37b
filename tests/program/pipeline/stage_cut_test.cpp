#include "engine/program/pipeline/stage_cut.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/op_time.h"
#include "tests/program/pipeline/cut_models.h"
#include "tests/refusal.h"

// Where models are cut into stages.

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

std::vector<double> times_of_parts(const Graph& forward, const StageCut& cut) {
  std::vector<double> times(cut.begins.size() + 1, 0);
  for (const GraphNode& node : forward.nodes)
    times[static_cast<std::size_t>(part_of(cut, node.layer))] += estimated_time(node.op);
  return times;
}

double time_of_slowest(const Graph& forward, const StageCut& cut) {
  const std::vector<double> times = times_of_parts(forward, cut);
  return *std::max_element(times.begin(), times.end());
}

/// Bytes that are made in front of a begin and read behind it, for each begin.
double bytes_across(const Graph& forward, const StageCut& cut) {
  double bytes = 0;
  for (const LayerId begin : cut.begins) {
    std::set<ValueId> made, crossing;
    for (const GraphNode& node : forward.nodes) {
      for (const ValueId output : node.outputs)
        if (node.layer < begin) made.insert(root_of(forward, output));
      for (const ValueId input : node.inputs)
        if (node.layer >= begin && made.count(root_of(forward, input)) != 0) crossing.insert(root_of(forward, input));
    }
    for (const ValueId value : crossing) bytes += static_cast<double>(forward.values[value].type.num_bytes());
  }
  return bytes;
}

std::string refused_cut(const Graph& forward, std::vector<std::string> cut) {
  const auto num_stages = static_cast<std::int64_t>(cut.size()) + 1;
  return refusal_of<ConfigError>([&] { cut_into_stages(forward, stages_alone(num_stages, std::move(cut))); });
}

}  // namespace

TEST_CASE("a model is cut at the layers that are named") {
  const Graph forward = forward_to_cut(images_to_cut(skipping_layers), GraphMode::training, false);
  const auto at = [&](const std::string& path) { return layer_called(forward, path); };
  const StageCut cut = cut_into_stages(forward, stages_alone(4, {"first", "large", "9.layers.0"}));
  CHECK(cut.begins == std::vector{at("first"), at("large"), at("9.layers.0")});
  CHECK(cut.num_chunks() == 4);
  for (std::size_t layer = 0; layer < forward.layers.size(); ++layer)
    CHECK(cut.chunk_of(static_cast<LayerId>(layer)) == part_of(cut, static_cast<LayerId>(layer)));
  CHECK(cut.chunk_of(at("wide")) == 0);
  CHECK(cut.chunk_of(at("first")) == 1);
  CHECK(cut.chunk_of(at("8")) == 2);
  CHECK(cut.chunk_of(at("loss")) == 3);
  // Of several that a name means, where the first begins: the residual's layers stand in front of its sum.
  CHECK(cut_into_stages(forward, stages_alone(2, {"9"})).begins == std::vector{at("9.layers.0")});
  CHECK(cut_into_stages(forward, stages_alone(2, {"concat"})).begins == std::vector{at("6")});
  ParallelConfig interleaved = stages_alone(2, {"first", "second", "large"});
  interleaved.schedule = PipelineOrder::interleaved;
  CHECK(cut_into_stages(forward, interleaved).begins == std::vector{at("first"), at("second"), at("large")});
  CHECK(cut_into_stages(forward, stages_alone(1)).begins.empty());
}

TEST_CASE("a cut at no layer, at the first one, or out of the order of the model is refused") {
  const CutModel model = numbers_to_cut(
      "{linear: {out: 16, name: a}}, {linear: {out: 16, name: b}}, {linear: {out: 16, name: c}}, {linear: {out: 10}}");
  const Graph forward = forward_to_cut(model);
  CHECK_THAT(refused_cut(forward, {"d"}), Contains("parallel.cut") && Contains("d"));
  CHECK_THAT(refused_cut(forward, {"b", "nothing"}), Contains("nothing"));
  CHECK_THAT(refused_cut(forward, {"a"}), Contains("no part of the list of layers can begin at 'a'"));
  CHECK_THAT(refused_cut(forward, {"linear"}), Contains("'linear'"));  // means the first as well
  CHECK_THAT(refused_cut(forward, {"c", "b"}), Contains("can begin at 'b'"));
  CHECK_THAT(refused_cut(forward, {"b", "b"}), Contains("can begin at 'b'"));
  CHECK_THAT(refused_cut(forward, {"loss"}), Contains("loss"));
  CHECK(refused_cut(forward, {"b", "c"}) == "it was taken");
}

TEST_CASE("a model of fewer layers than parts is refused") {
  const Graph forward = forward_to_cut(numbers_to_cut("{linear: {out: 16}}, gelu, {linear: {out: 10}}"));
  const auto refusal = [&](ParallelConfig parallel) {
    return refusal_of<ConfigError>([&] { cut_into_stages(forward, parallel); });
  };
  CHECK(refusal(stages_alone(3)) == "it was taken");
  CHECK_THAT(refusal(stages_alone(4)), Contains("3 layers") && Contains("4 parts"));
  ParallelConfig interleaved = stages_alone(2);
  interleaved.schedule = PipelineOrder::interleaved;
  CHECK_THAT(refusal(interleaved), Contains("3 layers") && Contains("parallel.chunks"));
  // What is but another shape of the same bytes computes nothing.
  CHECK_THAT(refused_cut(forward_to_cut(numbers_to_cut("{linear: {out: 16}}, {flatten: {name: flat}}, {linear: {out: "
                                                       "10}}")),
                         {"flat"}),
             Contains("'flat'"));
}

TEST_CASE("layers alike are cut into parts of as many") {
  std::string layers;
  for (int i = 0; i < 12; ++i) layers += std::string(i > 0 ? ", " : "") + "{linear: {out: 64}}";
  const Graph forward = forward_to_cut(numbers_to_cut(layers, "", 64, 64));
  for (const std::int64_t num_stages : {1, 2, 3, 4, 6, 12}) {
    const StageCut cut = cut_into_stages(forward, stages_alone(num_stages));
    std::map<std::int32_t, std::int64_t> num_layers;
    for (const LayerId layer : computing_layers(forward)) ++num_layers[cut.chunk_of(layer)];
    CHECK(static_cast<std::int64_t>(num_layers.size()) == num_stages);
    for (const auto& [part, count] : num_layers) CHECK(count == 12 / num_stages);
  }
}

TEST_CASE("no cut has a slowest part that is much faster than that of the automatic one, nor sends less as fast") {
  std::mt19937 random(5);
  const auto width = [&] { return std::to_string(1 + random() % (random() % 3 == 0 ? 200 : 40)); };
  for (int i = 0; i < 60; ++i) {
    std::string layers = "{linear: {out: " + width() + ", name: first}}";
    for (std::uint32_t more = 1 + random() % 6; more > 0; --more) {
      const std::string kinds[] = {"{linear: {out: " + width() + "}}", "gelu", "layernorm", "{dropout: {p: 0.1}}",
                                   "{residual: {layers: [relu]}}"};
      layers += ", " + kinds[random() % 2 == 0 ? 0 : random() % 5];
    }
    const Graph forward = forward_to_cut(numbers_to_cut(layers + ", {linear: {out: 10}}"));
    const std::size_t num_layers = computing_layers(forward).size();
    for (std::size_t num_chunks = 2; num_chunks <= num_layers; ++num_chunks) {
      INFO(layers << ", " << num_chunks << " parts");
      const StageCut cut = cut_into_stages(forward, stages_alone(static_cast<std::int64_t>(num_chunks)));
      REQUIRE(cut.begins.size() + 1 == num_chunks);
      double least_time = std::numeric_limits<double>::infinity(), least_bytes = least_time;
      const std::vector<StageCut> others = all_cuts(forward, num_chunks);
      for (const StageCut& other : others) least_time = std::min(least_time, time_of_slowest(forward, other));
      for (const StageCut& other : others)
        if (time_of_slowest(forward, other) <= least_time * (1 + 1e-9))
          least_bytes = std::min(least_bytes, bytes_across(forward, other));
      CHECK(time_of_slowest(forward, cut) <= 1.03 * least_time);
      CHECK(bytes_across(forward, cut) <= least_bytes);
    }
  }
}
