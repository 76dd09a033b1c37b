#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/graph.h"
#include "engine/program/pipeline/stage_cut.h"

// Small models that pipelines cut, and how they are cut.

namespace trainer {

/// A model to be cut, and what it takes.
struct CutModel {
  std::string name, yaml;
  DataDescription data;
};

/// `layers` of numbers; `more`: sections of its configuration behind those that it has.
CutModel numbers_to_cut(const std::string& layers, const std::string& more = "", std::int64_t width = 16,
                        std::int64_t num_classes = 10);
CutModel images_to_cut(const std::string& layers, const std::string& more = "");

/// Documents of tokens, which all attentions keep within, and a head that shares the embedding.
CutModel texts_to_cut(const std::string& more = "");

/// Images behind which layers skip others.
inline const std::string skipping_layers =
    "{conv2d: {out: 5, kernel: 3, padding: 1, name: wide}}, batchnorm2d, {relu: {name: first}}, "
    "{maxpool2d: {kernel: 2}}, {conv2d: {out: 6, kernel: 3, padding: 1}}, {relu: {name: second}}, "
    "{concat: {from: [second, \"3\"]}}, {upsample: {scale: 2, mode: bilinear, name: large}}, "
    "{concat: {from: [first, large]}}, {residual: {layers: [{conv2d: {out: 16, kernel: 3, padding: 1}}, relu]}}, "
    "{concat: {from: [first, \"9\"]}}, flatten, {linear: {out: 10}}";

/// With more in its section `train`.
CutModel trained_with(CutModel model, const std::string& train);

std::vector<CutModel> models_to_cut();

/// Of a batch of 8; `fuses`: activations with what makes their input, as before a cut.
Graph forward_to_cut(const CutModel& model, GraphMode mode = GraphMode::training, bool fuses = true);

LayerId layer_called(const Graph& graph, const std::string& path);

/// Layers that compute something, in their order; the loss is none.
std::vector<LayerId> computing_layers(const Graph& forward);

/// Every cut of a model into so many parts.
std::vector<StageCut> all_cuts(const Graph& forward, std::size_t num_chunks);

/// How many of the begins a layer does not stand in front of.
std::int32_t part_of(const StageCut& cut, LayerId layer);

/// A pipeline of one rank a stage.
ParallelConfig stages_alone(std::int64_t num_stages, std::vector<std::string> cut = {});

bool sends_or_receives(const GraphNode& node);

/// A node as nothing but its operands and op.
using NodeKey = std::tuple<OpKind, LayerId, Phase, std::vector<ValueId>, std::vector<ValueId>>;

NodeKey key_of(const GraphNode& node);

}  // namespace trainer
