#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/ops/op_definition.h"
#include "engine/program/compile.h"
#include "engine/program/concat_placement.h"
#include "engine/program/op_time.h"
#include "engine/program/pipeline/split_backward.h"
#include "engine/program/pipeline/stage_cut.h"
#include "engine/program/pipeline/stage_graph.h"
#include "engine/program/precision.h"
#include "engine/program/recompute/recompute.h"
#include "engine/program/relu_fusion.h"
#include "engine/program/residual_fusion.h"
#include "tests/device/described_device.h"
#include "tests/program/check_order.h"
#include "tests/refusal.h"

// Cuts of models into stages, what these send each other, and backward passes in two parts.

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// A model to be cut, and what it takes.
struct CutModel {
  std::string name, yaml;
  DataDescription data;
};

CutModel numbers_to_cut(const std::string& layers, const std::string& more = "", std::int64_t width = 16,
                        std::int64_t num_classes = 10) {
  return {layers,
          "data: {type: synthetic, shape: [" + std::to_string(width) + "], classes: " + std::to_string(num_classes) +
              ", samples: 64}\nmodel: {layers: [" + layers + "]}\ntrain: {batch_size: 8}\n" + more,
          described_data({width}, num_classes, 64)};
}

CutModel images_to_cut(const std::string& layers, const std::string& more = "") {
  return {layers,
          "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel: {layers: [" + layers +
              "]}\ntrain: {batch_size: 8}\n" + more,
          described_data({8, 8, 3}, 10, 64)};
}

/// Documents of tokens, which all attentions keep within, and a head that shares the embedding.
CutModel texts_to_cut(const std::string& more = "") {
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

const std::string skipping_layers =
    "{conv2d: {out: 5, kernel: 3, padding: 1, name: wide}}, batchnorm2d, {relu: {name: first}}, "
    "{maxpool2d: {kernel: 2}}, {conv2d: {out: 6, kernel: 3, padding: 1}}, {relu: {name: second}}, "
    "{concat: {from: [second, \"3\"]}}, {upsample: {scale: 2, mode: bilinear, name: large}}, "
    "{concat: {from: [first, large]}}, {residual: {layers: [{conv2d: {out: 16, kernel: 3, padding: 1}}, relu]}}, "
    "{concat: {from: [first, \"9\"]}}, flatten, {linear: {out: 10}}";

/// With more in its section `train`.
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

/// The same, and in 16 bit.
std::vector<CutModel> models_of_both_widths() {
  std::vector<CutModel> models = models_to_cut();
  for (const CutModel& model : models_to_cut()) models.push_back(trained_with(model, "amp: bf16"));
  return models;
}

Graph forward_to_cut(const CutModel& model, GraphMode mode = GraphMode::training, bool fuses = true) {
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

/// Layers that compute something, in their order; the loss is none.
std::vector<LayerId> computing_layers(const Graph& forward) {
  std::set<LayerId> layers;
  for (const GraphNode& node : forward.nodes)
    if (node.layer <= forward.values[forward.prediction].layer) layers.insert(node.layer);
  return {layers.begin(), layers.end()};
}

/// Every cut of a model into so many parts.
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

/// How many of the begins a layer does not stand in front of.
std::int32_t part_of(const StageCut& cut, LayerId layer) {
  std::int32_t part = 0;
  for (const LayerId begin : cut.begins) part += layer >= begin ? 1 : 0;
  return part;
}

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

ParallelConfig stages_alone(std::int64_t num_stages, std::vector<std::string> cut = {}) {
  ParallelConfig parallel;
  parallel.pipeline = num_stages;
  parallel.cut = std::move(cut);
  return parallel;
}

std::string refused_cut(const Graph& forward, std::vector<std::string> cut) {
  const auto num_stages = static_cast<std::int64_t>(cut.size()) + 1;
  return refusal_of<ConfigError>([&] { cut_into_stages(forward, stages_alone(num_stages, std::move(cut))); });
}

/// One stage after the other, what it keeps of a forward pass.
std::vector<Graph> kept_stages(const Graph& forward, const StageCut& cut, std::int32_t num_stages) {
  const std::vector<StageMessage> messages = stage_messages(forward, cut, num_stages);
  std::vector<Graph> stages;
  for (std::int32_t stage = 0; stage < num_stages; ++stage) {
    stages.push_back(forward);
    keep_stage(stages.back(), cut, messages, {.num_stages = num_stages, .rank = stage});
  }
  return stages;
}

bool sends_or_receives(const GraphNode& node) {
  return node.op.kind == OpKind::send || node.op.kind == OpKind::receive;
}

/// A node as nothing but its operands and op.
using NodeKey = std::tuple<OpKind, LayerId, Phase, std::vector<ValueId>, std::vector<ValueId>>;

NodeKey key_of(const GraphNode& node) { return {node.op.kind, node.layer, node.phase, node.inputs, node.outputs}; }

/// What is wrong where stages run side by side, a receive as soon as its message was sent; empty: nothing.
std::string mistake_of_stages(const Graph& forward, const std::vector<Graph>& stages,
                              const std::vector<StageMessage>& messages) {
  std::multiset<NodeKey> open;
  for (const GraphNode& node : forward.nodes) open.insert(key_of(node));
  std::set<ValueId> given;
  for (std::size_t v = 0; v < forward.values.size(); ++v)
    if (forward.values[v].parameter >= 0) given.insert(static_cast<ValueId>(v));
  for (const ValueId field : forward.fields()) given.insert(field);
  for (const ValueId each : {forward.loss_statistics, forward.loss_scale, forward.metric_counts}) given.insert(each);
  std::vector<std::set<ValueId>> there(stages.size(), given);
  std::vector<std::size_t> next(stages.size(), 0);
  std::set<std::int32_t> sent, received;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t s = 0; s < stages.size(); ++s)
      for (; next[s] < stages[s].nodes.size(); ++next[s], goes_on = true) {
        const GraphNode& node = stages[s].nodes[next[s]];
        for (const ValueId input : node.inputs)
          if (there[s].count(root_of(forward, input)) == 0) return "a stage reads what it does not have";
        if (sends_or_receives(node)) {
          const auto& attributes = attributes_of<PeerAttributes>(node.op);
          const StageMessage& message = messages.at(static_cast<std::size_t>(attributes.message));
          const bool sends = node.op.kind == OpKind::send;
          const auto num_stages = static_cast<std::int32_t>(stages.size());
          const std::int32_t own = (sends ? message.from : message.to) % num_stages;
          const std::int32_t peer = (sends ? message.to : message.from) % num_stages;
          if (own != static_cast<std::int32_t>(s) || attributes.peer() != peer) return "a message of other stages";
          if (attributes.returns_gradient != message.returns_gradient) return "stages disagree about gradients";
          if ((sends ? node.inputs : node.outputs) != std::vector{message.value}) return "another value";
          if ((sends ? node.op.inputs : node.op.outputs) != std::vector{forward.values[message.value].type})
            return "another type";
          if (!sends && sent.count(attributes.message) == 0) break;
          if (!(sends ? sent : received).insert(attributes.message).second) return "sent or received twice";
        } else {
          const auto found = open.find(key_of(node));
          if (found == open.end()) return "a node that is done twice, or is none of the model";
          open.erase(found);
        }
        for (const ValueId output : node.outputs) there[s].insert(root_of(forward, output));
      }
  }
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (next[s] < stages[s].nodes.size()) return "a stage waits for ever";
  if (!open.empty()) return "a node that no stage does";
  if (sent.size() != messages.size() || received != sent) return "a message that is not sent, or not received";
  return {};
}

/// By message number, the phases in which a stage sends it and receives it, or its gradient.
std::map<std::pair<std::int32_t, Phase>, int> exchanges_of(const Graph& graph, OpKind kind) {
  std::map<std::pair<std::int32_t, Phase>, int> counts;
  for (const GraphNode& node : graph.nodes)
    if (node.op.kind == kind) ++counts[{attributes_of<PeerAttributes>(node.op).message, node.phase}];
  return counts;
}

/// What is wrong with the backward passes of stages, beside that of the whole model; empty: nothing.
std::string mistake_of_gradients(const Graph& forward, std::vector<Graph> stages, const StageCut& cut,
                                 const std::vector<StageMessage>& messages) {
  const auto num_stages = static_cast<std::int32_t>(stages.size());
  Graph whole = forward;
  differentiate(whole);
  for (Graph& stage : stages) differentiate(stage);
  const std::vector<std::vector<std::int32_t>> readers = stages_of_parameters(forward, cut, num_stages);
  for (std::size_t p = 0; p < whole.parameters.size(); ++p)
    for (std::int32_t s = 0; s < num_stages; ++s) {
      const bool reads = std::find(readers[p].begin(), readers[p].end(), s) != readers[p].end();
      if ((stages[static_cast<std::size_t>(s)].parameter_gradients[p] >= 0) !=
          (reads && whole.parameter_gradients[p] >= 0))
        return "a gradient of " + whole.parameters[p].name + " too few or too many in stage " + std::to_string(s);
    }
  for (std::int32_t s = 0; s < num_stages; ++s) {
    std::map<std::pair<std::int32_t, Phase>, int> sends, receives;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const auto number = static_cast<std::int32_t>(m);
      if (messages[m].from % num_stages == s) sends[{number, Phase::forward}] = 1;
      if (messages[m].to % num_stages == s) receives[{number, Phase::forward}] = 1;
      if (!messages[m].returns_gradient) continue;
      if (messages[m].to % num_stages == s) sends[{number, Phase::backward}] = 1;
      if (messages[m].from % num_stages == s) receives[{number, Phase::backward}] = 1;
    }
    const Graph& graph = stages[static_cast<std::size_t>(s)];
    if (exchanges_of(graph, OpKind::send) != sends) return "stage " + std::to_string(s) + " sends something else";
    if (exchanges_of(graph, OpKind::receive) != receives)
      return "stage " + std::to_string(s) + " receives something else";
    for (const GraphNode& node : graph.nodes)
      if (sends_or_receives(node) && node.phase == Phase::backward) {
        const ValueId value = messages[static_cast<std::size_t>(attributes_of<PeerAttributes>(node.op).message)].value;
        const std::vector<TensorType>& types = node.op.kind == OpKind::send ? node.op.inputs : node.op.outputs;
        if (types != std::vector{forward.values[value].type}) return "a gradient of another type";
      }
  }
  return {};
}

/// The messages that a reading of the nodes asks for: of each value, one to each other stage that reads it.
std::map<std::pair<ValueId, std::int32_t>, std::pair<std::int32_t, std::int32_t>> messages_wanted(
    const Graph& forward, const StageCut& cut, std::int32_t num_stages) {
  std::map<std::pair<ValueId, std::int32_t>, std::pair<std::int32_t, std::int32_t>> wanted;  // from, to
  for (const GraphNode& maker : forward.nodes)
    for (const ValueId output : maker.outputs)
      for (const GraphNode& reader : forward.nodes)
        for (const ValueId input : reader.inputs) {
          if (root_of(forward, input) != root_of(forward, output)) continue;
          const std::int32_t from = part_of(cut, maker.layer), to = part_of(cut, reader.layer);
          if (from % num_stages == to % num_stages) continue;
          const auto [known, is_new] =
              wanted.try_emplace({root_of(forward, output), to % num_stages}, std::pair(from, to));
          if (!is_new) known->second.second = std::min(known->second.second, to);
        }
  return wanted;
}

// What nodes read, by who wrote it last.

/// By node that has run: for each input the number of the node that wrote it last; −1: none. And for each value the
/// same at the end.
struct WritersRead {
  std::vector<std::vector<std::int64_t>> of_nodes;
  std::vector<std::int64_t> at_end;
};

/// `numbers`: of the nodes, in the order in which they stand.
WritersRead writers_read(const Graph& graph, const std::vector<std::size_t>& numbers) {
  WritersRead read{.of_nodes = std::vector<std::vector<std::int64_t>>(graph.nodes.size()),
                   .at_end = std::vector<std::int64_t>(graph.values.size(), -1)};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    for (const ValueId input : node.inputs) read.of_nodes[numbers[n]].push_back(read.at_end[root_of(graph, input)]);
    const auto writes = [&](ValueId value) { read.at_end[root_of(graph, value)] = static_cast<int>(numbers[n]); };
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (may_modify_input(node.op, static_cast<int>(i))) writes(node.inputs[i]);
    for (const ValueId output : node.outputs) writes(output);
  }
  return read;
}

struct SplitCounts {
  std::size_t deferred = 0;
  int weight_gradients = 0, left = 0;  ///< of the role, in all and of those that stay in their place
};

/// Splits a backward pass; every node must read what it read before.
SplitCounts check_split(Graph graph) {
  const Graph before = graph;
  SplitCounts counts{.deferred = defer_weight_gradients(graph)};
  REQUIRE(graph.nodes.size() == before.nodes.size());
  std::vector<std::size_t> in_order(before.nodes.size()), numbers;
  std::map<NodeKey, std::vector<std::size_t>> places;  // of nodes that are alike the last one first
  for (std::size_t n = before.nodes.size(); n-- > 0;) {
    places[key_of(before.nodes[n])].push_back(n);
    in_order[n] = n;
  }
  for (const GraphNode& node : graph.nodes) {
    std::vector<std::size_t>& alike = places[key_of(node)];
    REQUIRE(!alike.empty());
    CHECK(node.op == before.nodes[alike.back()].op);
    numbers.push_back(alike.back());
    alike.pop_back();
  }
  const WritersRead old_reads = writers_read(before, in_order), new_reads = writers_read(graph, numbers);
  CHECK(old_reads.of_nodes == new_reads.of_nodes);
  CHECK(old_reads.at_end == new_reads.at_end);
  const auto first_late = numbers.end() - static_cast<std::ptrdiff_t>(counts.deferred);
  CHECK(std::is_sorted(numbers.begin(), first_late));
  CHECK(std::is_sorted(first_late, numbers.end()));
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (definition_of(graph.nodes[n].op.kind).role != Role::weight_gradient) continue;
    ++counts.weight_gradients;
    counts.left += n < graph.nodes.size() - counts.deferred ? 1 : 0;
  }
  return counts;
}

/// A training pass of a stage as it is scheduled.
Graph trained_stage(const CutModel& model, const std::string& more, std::int64_t num_stages, std::int64_t rank) {
  Experiment experiment = parse_experiment(model.yaml + more, "test.yaml");
  experiment.parallel.pipeline = num_stages;
  experiment.parallel.schedule = PipelineOrder::zero_bubble;
  experiment.parallel.micro_batches = 2;
  experiment.parallel.rank = rank;
  const DescribedDevice device;
  Graph graph = make_training_graph(experiment, model.data, device).graph;
  apply_recompute(graph, device, {.checkpointing = &experiment.train.checkpointing, .accumulates = true});
  fuse_residuals(graph, true);
  place_concatenated(graph, true);
  return graph;
}

/// Nodes that read, make and write over values at random; some make gradients of weights.
Graph random_nodes(std::mt19937& random) {
  Graph graph;
  const TensorType type{DType::f32, Shape{4}};
  std::vector<ValueId> there;
  const auto add_value = [&](ValueId view_of) {
    Value value;
    value.type = type;
    value.view_of = view_of;
    graph.values.push_back(value);
    there.push_back(static_cast<ValueId>(graph.values.size()) - 1);
    return there.back();
  };
  const auto any = [&] { return there[random() % there.size()]; };
  for (int i = 0; i < 3; ++i) add_value(-1);
  const std::uint32_t num_nodes = 1 + random() % 24, one_in = 1 + random() % 6;
  for (std::uint32_t n = 0; n < num_nodes; ++n) {
    GraphNode node;
    node.layer = static_cast<LayerId>(n);
    node.phase = Phase::backward;
    const std::uint32_t kind = random() % 6;
    if (random() % one_in == 0) {  // writes over what it reads
      node.op = {OpKind::fill_zero, {}, {type}, {}};
      node.inputs = {any()};
    } else if (kind < 3) {
      node.op = {OpKind::sum_rows, {}, {type}, {type}};
      node.inputs = {any()};
    } else {
      node.op = {OpKind::add, AddAttributes{}, {type, type}, {type}};
      node.inputs = {any(), any()};
    }
    if (!node.op.outputs.empty()) node.outputs = {add_value(-1)};
    if (random() % 5 == 0) add_value(any());
    graph.nodes.push_back(std::move(node));
  }
  return graph;
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

TEST_CASE("a stage is sent what it reads of others, each value once, and its forward pass is all of its layers") {
  for (const CutModel& model : models_of_both_widths())
    for (const GraphMode mode : {GraphMode::training, GraphMode::evaluation}) {
      const Graph forward = forward_to_cut(model, mode);
      for (const auto& [num_stages, num_chunks] : {std::pair{2, 2}, {3, 3}, {2, 4}, {4, 4}})
        for (const StageCut& cut : all_cuts(forward, static_cast<std::size_t>(num_chunks))) {
          if (num_chunks == 4 && (cut.begins[0] + 3 * cut.begins[1] + 5 * cut.begins[2]) % 7 != 0) continue;
          INFO(model.name << ", " << num_stages << " stages, cut at " << Catch::Detail::stringify(cut.begins));
          const std::vector<StageMessage> messages = stage_messages(forward, cut, num_stages);
          auto wanted = messages_wanted(forward, cut, num_stages);
          std::vector<std::tuple<std::int32_t, std::int32_t, ValueId>> order;
          for (const StageMessage& message : messages) {
            order.emplace_back(message.to, message.from, message.value);
            const auto found = wanted.find({message.value, message.to % num_stages});
            REQUIRE(found != wanted.end());
            CHECK(found->second == std::pair(message.from, message.to));
            wanted.erase(found);
            if (mode == GraphMode::evaluation || forward.values[message.value].type.dtype == DType::i32)
              CHECK_FALSE(message.returns_gradient);
          }
          CHECK(wanted.empty());
          CHECK(std::is_sorted(order.begin(), order.end()));
          const std::vector<Graph> stages = kept_stages(forward, cut, num_stages);
          CHECK(mistake_of_stages(forward, stages, messages) == "");
          if (mode == GraphMode::training) CHECK(mistake_of_gradients(forward, stages, cut, messages) == "");
        }
    }
}

TEST_CASE("a stage's passes make what they read before they read it") {
  for (const CutModel& model : models_of_both_widths()) {
    const Graph forward = forward_to_cut(model);
    for (const std::int32_t num_stages : {2, 3}) {
      INFO(model.name << ", " << num_stages << " stages");
      for (Graph& stage : kept_stages(forward, cut_into_stages(forward, stages_alone(num_stages)), num_stages)) {
        differentiate(stage);
        check_order(stage);
      }
    }
  }
}

TEST_CASE("gradients of what nothing is trained in front of are not returned") {
  const std::string layers =
      "{linear: {out: 16, name: a}}, {linear: {out: 16, name: b}}, {linear: {out: 16, name: c}}, {linear: {out: 10}}";
  const auto returned = [&](const std::string& freeze) {
    const Graph forward = forward_to_cut(numbers_to_cut(layers, freeze));
    std::string text;
    for (const StageMessage& message : stage_messages(forward, cut_into_stages(forward, stages_alone(4)), 4))
      text += message.returns_gradient ? 'y' : 'n';
    return text;
  };
  CHECK(returned("") == "yyy");
  CHECK(returned("freeze: [a]\n") == "nyy");
  CHECK(returned("freeze: [a, b]\n") == "nny");
  CHECK(returned("freeze: [b, c]\n") == "yyy");
  CHECK(returned("freeze: [\"*\", \"!3\"]\n") == "nnn");
}

TEST_CASE("tokens are no messages, and where documents are goes once to each stage with attention, one way") {
  const Graph forward = forward_to_cut(texts_to_cut());
  const auto at = [&](const std::string& path) { return layer_called(forward, path); };
  const StageCut cut{{at("2.layers.1"), at("3.layers.2"), at("head")}};
  std::map<std::int32_t, int> of_integers;  // by destination
  int num_others = 0;
  for (const StageMessage& message : stage_messages(forward, cut, 4)) {
    CHECK(message.value != root_of(forward, forward.inputs[0]));
    if (forward.values[message.value].type.dtype != DType::i32) {
      CHECK(message.returns_gradient);
      ++num_others;
      continue;
    }
    CHECK_FALSE(message.returns_gradient);
    CHECK(message.from == 0);
    ++of_integers[message.to];
  }
  CHECK(of_integers == std::map<std::int32_t, int>{{1, 1}, {2, 1}});
  CHECK(num_others == 5);  // a block's norm and its sum's other term go to 1, so do products and such a term to 2
}

TEST_CASE("parameters are of the stages that read them, a shared embedding of two") {
  const Graph forward = forward_to_cut(texts_to_cut());
  const StageCut cut{{layer_called(forward, "2.layers.3"), layer_called(forward, "head")}};
  const std::vector<std::vector<std::int32_t>> stages = stages_of_parameters(forward, cut, 3);
  REQUIRE(stages.size() == forward.parameters.size());
  for (std::size_t p = 0; p < stages.size(); ++p) {
    INFO(forward.parameters[p].name);
    if (forward.parameters[p].name == "wte.weight")
      CHECK(stages[p] == std::vector{0, 2});
    else
      CHECK(stages[p] == std::vector{part_of(cut, forward.parameters[p].layer)});
  }
  // Interleaved, chunks 0 and 2 are of one stage.
  const std::vector<std::vector<std::int32_t>> interleaved = stages_of_parameters(forward, cut, 2);
  for (std::size_t p = 0; p < interleaved.size(); ++p)
    CHECK(interleaved[p] == std::vector{part_of(cut, forward.parameters[p].layer) % 2});
}

TEST_CASE("gradients of weights are made behind what stages wait for, of what they were made of before") {
  SplitCounts all;
  std::vector<CutModel> models = models_to_cut();
  models.push_back(images_to_cut(
      "{conv2d: {out: 8, kernel: 3, padding: 1}}, batchnorm2d, {residual: {layers: [{conv2d: {out: 8, kernel: 3, "
      "padding: 1}}, batchnorm2d, relu]}}, relu, {residual: {layers: [{groupnorm: {groups: 2}}, silu]}}, flatten, "
      "{dropout: {p: 0.2}}, {linear: {out: 10}}"));
  for (const CutModel& model : models)
    for (const std::string more : {"", "memory: {recompute_cheap: false}\n", "optimizer: {type: adamw}\n"})
      for (const std::string train : {"", "amp: bf16", "checkpointing: sqrt", "amp: fp16, checkpointing: sqrt"})
        for (const std::int64_t num_stages : {1, 2, 3})
          for (std::int64_t rank = 0; rank < num_stages; ++rank) {
            const CutModel changed = trained_with(model, train);
            INFO(changed.yaml << more << num_stages << " stages, rank " << rank);
            const SplitCounts counts = check_split(trained_stage(changed, more, num_stages, rank));
            all.deferred += counts.deferred;
            all.weight_gradients += counts.weight_gradients;
            all.left += counts.left;
          }
  CHECK(all.weight_gradients > 0);
  CHECK(all.left * 20 <= all.weight_gradients);
}

TEST_CASE("all gradients of weights of products wait, and nothing that is sent waits for them") {
  const std::string layers =
      "{linear: {out: 16}}, gelu, {linear: {out: 16}}, gelu, {linear: {out: 16}}, gelu, {linear: {out: 10}}";
  for (const std::int64_t rank : {0, 1}) {
    Graph graph = trained_stage(numbers_to_cut(layers), "", 2, rank);
    const SplitCounts counts = check_split(graph);
    CHECK(counts.weight_gradients > 0);
    CHECK(counts.left == 0);
    const std::size_t num_deferred = defer_weight_gradients(graph);
    for (std::size_t n = graph.nodes.size() - num_deferred; n < graph.nodes.size(); ++n)
      CHECK_FALSE(sends_or_receives(graph.nodes[n]));
  }
}

TEST_CASE("whatever nodes read and write over, deferring some changes nothing that is read") {
  std::mt19937 random(7);
  std::size_t num_deferred = 0;
  int num_left = 0;
  for (int i = 0; i < 4000; ++i) {
    INFO("graph " << i);
    const SplitCounts counts = check_split(random_nodes(random));
    num_deferred += counts.deferred;
    num_left += counts.left;
  }
  CHECK(num_deferred > 0);
  CHECK(num_left > 0);
}
