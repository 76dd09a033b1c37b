#include "tests/program/pipeline/cut_models.h"

#include <catch2/catch.hpp>

#include <functional>
#include <set>
#include <utility>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/precision.h"
#include "engine/program/relu_fusion.h"
#include "tests/device/described_device.h"

namespace trainer {

CutModel numbers_to_cut(const std::string& layers, const std::string& more, std::int64_t width,
                        std::int64_t num_classes) {
  return {layers,
          "data: {type: synthetic, shape: [" + std::to_string(width) + "], classes: " + std::to_string(num_classes) +
              ", samples: 64}\nmodel: {layers: [" + layers + "]}\ntrain: {batch_size: 8}\n" + more,
          described_data({width}, num_classes, 64)};
}

CutModel images_to_cut(const std::string& layers, const std::string& more) {
  return {layers,
          "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel: {layers: [" + layers +
              "]}\ntrain: {batch_size: 8}\n" + more,
          described_data({8, 8, 3}, 10, 64)};
}

CutModel texts_to_cut(const std::string& more) {
  DataDescription data = described_data({6}, 24, 64);
  data.inputs[0].type = {DType::i32, {6}};
  data.inputs[0].num_indices = 24;
  data.target = {DType::i32, {6}};
  return {"texts",
          "data: {type: tokens, train: a.bin, classes: 24, sequence_length: 6, document_token: 3}\n"
          "model:\n  layers: [{embedding: {num: 24, dim: 16, name: wte}}, {position_embedding: {length: 6}},\n"
          "    {residual: {layers: [layernorm, {linear: {out: 48}}, {attention: {heads: 4, causal: true}}, "
          "{linear: {out: 16}}]}},\n"
          "    {residual: {layers: [layernorm, {linear: {out: 48}}, {attention: {heads: 4, causal: true}}, "
          "{linear: {out: 16}}]}},\n"
          "    {linear: {out: 24, bias: false, share: wte, name: head}}]\n"
          "train: {batch_size: 8}\n" +
              more,
          data};
}

CutModel trained_with(CutModel model, const std::string& train) {
  const std::string sizes = "train: {batch_size: 8";
  if (!train.empty()) model.yaml.insert(model.yaml.find(sizes) + sizes.size(), ", " + train);
  model.name += ", " + train;
  return model;
}

std::vector<CutModel> models_to_cut() {
  return {numbers_to_cut("{linear: {out: 12}}, gelu, {layernorm: {name: norm}}, {linear: {out: 20}}, relu, {linear: "
                         "{out: 10}}"),
          numbers_to_cut("{linear: {out: 16, name: a}}, gelu, {linear: {out: 16, name: b}}, gelu, {add: {from: [a, "
                         "\"3\"]}}, {linear: {out: 10}}",
                         "freeze: [a]\n"),
          images_to_cut(skipping_layers),
          images_to_cut(skipping_layers, "freeze: [wide, \"4\"]\n"),
          texts_to_cut(),
          texts_to_cut("freeze: [wte]\n")};
}

Graph forward_to_cut(const CutModel& model, GraphMode mode, bool fuses) {
  const Experiment experiment = parse_experiment(model.yaml, "test.yaml");
  Graph graph = build_graph(experiment, model.data, 8, mode);
  if (experiment.train.amp != Amp::off) apply_precision(graph, precision_options(experiment));
  if (!fuses) return graph;
  fuse_relu_into_pooling(graph);
  fuse_relu(graph);
  return graph;
}

LayerId layer_called(const Graph& graph, const std::string& path) {
  for (std::size_t i = 0; i < graph.layers.size(); ++i)
    if (graph.layers[i].path == path) return static_cast<LayerId>(i);
  FAIL("there is no layer " << path);
  return no_layer;
}

std::vector<LayerId> computing_layers(const Graph& forward) {
  std::set<LayerId> layers;
  for (const GraphNode& node : forward.nodes)
    if (node.layer <= forward.values[forward.prediction].layer) layers.insert(node.layer);
  return {layers.begin(), layers.end()};
}

std::vector<StageCut> all_cuts(const Graph& forward, std::size_t num_chunks) {
  const std::vector<LayerId> layers = computing_layers(forward);
  std::vector<StageCut> cuts;
  std::vector<LayerId> begins;
  const std::function<void(std::size_t)> add = [&](std::size_t first) {
    if (begins.size() + 1 == num_chunks) {
      cuts.push_back({begins});
      return;
    }
    for (std::size_t i = first; i < layers.size(); ++i) {
      begins.push_back(layers[i]);
      add(i + 1);
      begins.pop_back();
    }
  };
  add(1);
  return cuts;
}

std::int32_t part_of(const StageCut& cut, LayerId layer) {
  std::int32_t part = 0;
  for (const LayerId begin : cut.begins) part += layer >= begin ? 1 : 0;
  return part;
}

ParallelConfig stages_alone(std::int64_t num_stages, std::vector<std::string> cut) {
  ParallelConfig parallel;
  parallel.pipeline = num_stages;
  parallel.cut = std::move(cut);
  return parallel;
}

bool sends_or_receives(const GraphNode& node) {
  return node.op.kind == OpKind::send || node.op.kind == OpKind::receive;
}

NodeKey key_of(const GraphNode& node) { return {node.op.kind, node.layer, node.phase, node.inputs, node.outputs}; }

}  // namespace trainer
