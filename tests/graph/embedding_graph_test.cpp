// Layers of tokens: rows for indices and places, and weights that a head shares with them.

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/graph/graph.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Sequences of 7 tokens of a vocabulary of 11.
DataDescription token_data() {
  DataDescription data = described_data({7}, 11, 64);
  data.inputs[0].type = {DType::i32, {7}};
  data.target = {DType::i32, {7}};
  return data;
}

Graph token_graph(const std::string& layers, const DataDescription& data = token_data()) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [7], classes: 11, samples: 64}\nmodel:\n  layers:\n" + layers, "test.yaml");
  return build_graph(experiment, data, 2, GraphMode::training);
}

Graph differentiated(Graph graph) {
  differentiate(graph);
  return graph;
}

std::string token_mistake(const std::string& layers, const DataDescription& data = token_data()) {
  try {
    token_graph(layers, data);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const GraphNode& node_of_kind(const Graph& graph, OpKind kind) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) { return node.op.kind == kind; });
  REQUIRE(found != graph.nodes.end());
  return *found;
}

const std::string tied =
    "    - embedding: {num: 11, dim: 4, name: wte}\n"
    "    - position_embedding: {length: 9, name: wpe}\n"
    "    - linear: {out: 11, bias: false, share: wte}\n";

}  // namespace

TEST_CASE("an embedding makes a row of each token, to which a position embedding adds that of its place") {
  const Graph graph = differentiated(
      token_graph("    - embedding: {num: 11, dim: 4, name: wte}\n    - position_embedding: {length: 9, name: wpe}\n"
                  "    - linear: {out: 11}\n"));
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) names.push_back(parameter.name);
  CHECK(names == std::vector<std::string>{"wte.weight", "wpe.weight", "2.weight", "2.bias"});
  CHECK(graph.parameters[0].type.shape == Shape{11, 4});
  CHECK(graph.parameters[0].start == Parameter::Start::random_rows);
  CHECK(graph.parameters[0].decays);
  CHECK(graph.parameters[1].type.shape == Shape{9, 4});
  CHECK(graph.values[graph.prediction].type.shape == Shape{2, 7, 11});
  CHECK(node_of_kind(graph, OpKind::embedding_backward).op.outputs[0].shape == Shape{11, 4});
  CHECK(node_of_kind(graph, OpKind::position_embedding_backward).op.outputs[0].shape == Shape{9, 4});
  for (const ValueId gradient : graph.parameter_gradients) CHECK(gradient >= 0);
}

TEST_CASE("indices go into embeddings alone, and numbers into none") {
  CHECK_THAT(token_mistake("    - linear: {out: 11}\n"),
             Contains("test.yaml:4:7: error: layer '0': linear takes numbers; its input are the indices i32 2×7"));
  CHECK_THAT(token_mistake("    - embedding: {num: 11, dim: 4}\n    - embedding: {num: 11, dim: 4}\n"),
             Contains("layer '1': embedding takes indices, such as tokens; its input are the numbers f32 2×7×4"));
  CHECK_THAT(token_mistake("    - embedding: {num: 11, dim: 4}\n    - position_embedding: {length: 6}\n"),
             Contains("layer '1': position_embedding has 6 places, and its input has 7"));
  CHECK_THAT(token_mistake("    - position_embedding: {length: 6}\n", described_data({7}, 11, 64)),
             Contains("position_embedding takes sequences of shape (batch, places, channels); its input is 2×7"));
  DataDescription images = token_data();
  images.inputs[0].type.shape = {3, 5};
  CHECK_THAT(token_mistake("    - embedding: {num: 11, dim: 4}\n", images),
             Contains("embedding takes one index or a row of them for each sample; its input is 2×3×5"));
}

TEST_CASE("an embedding has a row for each token of the data") {
  DataDescription data = token_data();
  data.inputs[0].num_indices = 11;
  const std::string head = "    - linear: {out: 11}\n";
  CHECK(token_mistake("    - embedding: {num: 11, dim: 4}\n" + head, data).empty());
  CHECK(token_mistake("    - embedding: {num: 64, dim: 4}\n" + head, data).empty());
  CHECK_THAT(token_mistake("    - embedding: {num: 10, dim: 4}\n" + head, data),
             Contains("test.yaml:4:7: error: layer '0': embedding has 10 rows, and the data's vocabulary 11"));
}

TEST_CASE("a head that shares the weight of an embedding may have a bias of its own") {
  const Graph graph = differentiated(
      token_graph("    - embedding: {num: 11, dim: 4, name: wte}\n    - linear: {out: 11, share: wte, name: head}\n"));
  REQUIRE(graph.parameters.size() == 2);
  CHECK(graph.parameters[1].name == "head.bias");
  CHECK(graph.parameters[1].type.shape == Shape{11});
  for (const ValueId gradient : graph.parameter_gradients) CHECK(gradient >= 0);
  const auto head =
      std::find_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.path == "head"; });
  REQUIRE(head != graph.layers.end());
  CHECK(head->shares == "wte");
  CHECK(head->num_parameters == 11);
}

TEST_CASE("a head without a bias shares the weight of an embedding, whose op adds to the head's gradient") {
  const Graph graph = differentiated(token_graph(tied));
  REQUIRE(graph.parameters.size() == 2);
  const GraphNode& of_head = node_of_kind(graph, OpKind::linear_backward_weight);
  const GraphNode& of_rows = node_of_kind(graph, OpKind::embedding_backward);
  CHECK(of_head.outputs[0] == graph.parameter_gradients[0]);
  CHECK(of_rows.outputs.empty());
  CHECK(of_rows.inputs.back() == graph.parameter_gradients[0]);
  CHECK(attributes_of<EmbeddingAttributes>(of_rows.op).adds);
  CHECK_THAT(token_mistake("    - embedding: {num: 12, dim: 4, name: wte}\n"
                           "    - linear: {out: 11, bias: false, share: wte}\n"),
             Contains("its weight is 11×4, and that of 'wte' is 12×4"));
}

TEST_CASE("two embeddings of one weight have one gradient, and so has one that shares a head's") {
  const Graph graph =
      differentiated(token_graph("    - embedding: {num: 11, dim: 11, name: a}\n"
                                 "    - linear: {out: 11, bias: false, name: b}\n"
                                 "    - embedding: {num: 11, dim: 11, share: b, from: input, name: c}\n"
                                 "    - embedding: {num: 11, dim: 11, share: a, from: input, name: d}\n"
                                 "    - add: {from: [b, c, d]}\n"));
  REQUIRE(graph.parameters.size() == 2);
  for (const ValueId gradient : graph.parameter_gradients) CHECK(gradient >= 0);
  const auto adding = std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode& node) {
    return node.op.kind == OpKind::embedding_backward && node.outputs.empty();
  });
  // d's is there when a adds; c's is there when b's product comes, which adds to nothing.
  CHECK(adding == 1);
}
