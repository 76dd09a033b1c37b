#include "engine/program/chunked_loss.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/fusion.h"
#include "engine/program/relu_fusion.h"
#include "tests/device/described_device.h"
#include "tests/program/check_order.h"

using namespace trainer;

namespace {

constexpr std::int64_t automatic = -1;

Experiment experiment_of(const std::string& layers, const std::string& rest = "") {
  return parse_experiment(
      "data: {type: synthetic, shape: [24], classes: 1500, samples: 96}\n"
      "model: {layers: [" +
          layers + "]}\n" + rest + "train: {batch_size: 32}\n",
      "test.yaml");
}

const std::string two_layers = "{linear: {out: 40}}, relu, {linear: {out: 1500, name: head}}";

Graph graph_of(const Experiment& experiment, std::int64_t chunked_loss, GraphMode mode = GraphMode::training) {
  Graph graph = build_graph(experiment, described_data({24}, 1500, 96), 32, mode);
  fuse_relu(graph);
  if (mode == GraphMode::training) differentiate(graph);
  chunk_loss(graph, chunked_loss, graph.batch_size);
  return graph;
}

std::vector<OpKind> kinds_of(const Graph& graph) {
  std::vector<OpKind> kinds;
  for (const GraphNode& node : graph.nodes) kinds.push_back(node.op.kind);
  return kinds;
}

const GraphNode& only(const Graph& graph, OpKind kind) {
  const auto is_kind = [&](const GraphNode& node) { return node.op.kind == kind; };
  REQUIRE(std::count_if(graph.nodes.begin(), graph.nodes.end(), is_kind) == 1);
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), is_kind);
}

const LinearCrossEntropyAttributes& attributes_of_loss(const Graph& graph) {
  return attributes_of<LinearCrossEntropyAttributes>(only(graph, OpKind::linear_cross_entropy_with_gradient).op);
}

std::int64_t gradient_of(const Graph& graph, const std::string& name) {
  for (std::size_t p = 0; p < graph.parameters.size(); ++p)
    if (graph.parameters[p].name == name) return graph.parameter_gradients[p];
  return -1;
}

}  // namespace

TEST_CASE("auto takes chunks of at most 16 MiB where 1024 classes or more have logits above 32 MiB") {
  CHECK(loss_chunk_rows(automatic, 1024, 20000, false) == 128);
  CHECK(loss_chunk_rows(automatic, 8192, 1024, false) == 0);  // 32 MiB and not more
  CHECK(loss_chunk_rows(automatic, 8193, 1024, false) == 4096);
  CHECK(loss_chunk_rows(automatic, 1 << 20, 1023, false) == 0);
  CHECK(loss_chunk_rows(automatic, 2, 5 << 20, false) == 1);
  CHECK(loss_chunk_rows(0, 1024, 20000, false) == 0);
  CHECK(loss_chunk_rows(7, 8, 10, false) == 7);
  for (std::int64_t classes = 1024; classes < (1 << 24); classes = classes * 3 / 2 + 1) {
    const std::int64_t rows = loss_chunk_rows(automatic, 1 << 16, classes, false);
    REQUIRE((rows & (rows - 1)) == 0);
    CHECK((rows == 1 || rows * classes * 4 <= 16 << 20));
    CHECK(2 * rows * classes * 4 > 16 << 20);
  }
}

TEST_CASE("auto takes fewer chunks of classes that ranks share, as they wait for each other in each") {
  CHECK(loss_chunk_rows(automatic, 1024, 20000, true) == 0);
  CHECK(loss_chunk_rows(automatic, 32768, 1024, true) == 0);  // 128 MiB and not more
  CHECK(loss_chunk_rows(automatic, 32769, 1024, true) == 16384);
  CHECK(loss_chunk_rows(automatic, 8192, 16384, true) == 1024);
  CHECK(loss_chunk_rows(automatic, 8192, 16385, true) == 512);
}

TEST_CASE("ranks that share the last layer take chunks of as many rows, whoever has more classes") {
  constexpr const char* text =
      "data: {type: synthetic, sequence_length: 1024, classes: 32769, samples: 96}\n"
      "model: {layers: [{embedding: {num: 32769, dim: 8}}, {linear: {out: 32769, name: head}}]}\n"
      "parallel: {tensor: 2}\n"
      "train: {batch_size: 8}\n";
  DataDescription data = described_data({1024}, 32769, 96);
  data.inputs[0].type = data.target = {DType::i32, {1024}};
  for (const int rank : {0, 1}) {
    Experiment experiment = parse_experiment(text, "test.yaml");
    experiment.parallel.rank = rank;
    for (const std::int64_t chunks : {automatic, std::int64_t{7}}) {
      experiment.memory.chunked_loss = chunks;
      const Program program = compile(experiment, data, DescribedDevice());
      std::vector<Op> losses;
      for (const OpCall& call : program.calls) {
        CHECK(call.op.kind != OpKind::class_statistics);
        if (call.op.kind == OpKind::linear_cross_entropy_with_gradient) losses.push_back(call.op);
      }
      REQUIRE(losses.size() == 1);
      CHECK(losses[0].inputs[1].shape == Shape{rank == 0 ? 16385 : 16384, 8});
      CHECK(attributes_of<LinearCrossEntropyAttributes>(losses[0]).chunk_rows == (chunks == automatic ? 512 : 7));
      CHECK(is_exchange(losses[0]));
    }
  }
}

TEST_CASE("smaller batches take chunks where the largest does, so that ranks run the same ops") {
  const auto kinds_with = [](const std::string& parallel, std::int64_t rank, std::int64_t num_samples) {
    Experiment experiment = parse_experiment(
        "data: {type: synthetic, sequence_length: 1024, classes: 32769, samples: " + std::to_string(num_samples) +
            "}\nmodel: {layers: [{embedding: {num: 32769, dim: 8}}, {linear: {out: 32769, name: head}}]}\nparallel: {" +
            parallel + "}\ntrain: {batch_size: 8}\n",
        "test.yaml");
    experiment.parallel.rank = rank;
    DataDescription data = described_data({1024}, 32769, num_samples);
    data.inputs[0].type = data.target = {DType::i32, {1024}};
    std::vector<OpKind> kinds;
    for (const OpCall& call : compile(experiment, data, DescribedDevice()).calls)
      if (call.op.kind == OpKind::linear_cross_entropy_with_gradient ||
          call.op.kind == OpKind::cross_entropy_of_parts || call.op.kind == OpKind::cross_entropy_with_gradient)
        kinds.push_back(call.op.kind);
    return kinds;
  };
  const auto chunks = [](std::size_t num_passes) {
    return std::vector<OpKind>(num_passes, OpKind::linear_cross_entropy_with_gradient);
  };
  CHECK(kinds_with("tensor: 2", 1, 97) == chunks(2));  // 64 MiB of logits of the last sample
  CHECK(kinds_with("tensor: 2, data: 8", 15, 97) == std::vector{OpKind::cross_entropy_of_parts});  // of each batch
  // Of three samples by two ranks, one has too few logits for chunks of its own.
  for (const std::int64_t rank : {0, 1, 2, 3})
    CHECK(kinds_with("tensor: 2, data: 2, shard: parameters", rank, 98) == chunks(2));
}

TEST_CASE("chunks of a last layer whose result ranks add up are refused, and auto takes none") {
  for (const std::string more : {"", "amp: bf16, "}) {
    Experiment experiment = parse_experiment(
        "data: {type: synthetic, shape: [24], classes: 8, samples: 96}\n"
        "model: {layers: [{linear: {out: 40}}, relu, {linear: {out: 8}}]}\nparallel: {tensor: 2}\ntrain: {" +
            more + "batch_size: 32}\n",
        "test.yaml");
    for (const int rank : {0, 1}) {
      experiment.parallel.rank = rank;
      experiment.memory.chunked_loss = automatic;
      CHECK_NOTHROW(compile(experiment, described_data({24}, 8, 96), DescribedDevice()));
      experiment.memory.chunked_loss = 7;
      CHECK_THROWS_WITH(compile(experiment, described_data({24}, 8, 96), DescribedDevice()),
                        Catch::Matchers::Contains("memory.chunked_loss is 7, but ranks that share layers"));
    }
  }
}

TEST_CASE("in training the last layer, its loss and their gradients become one op that makes the layer's gradients") {
  const Graph graph = graph_of(experiment_of(two_layers), 7);
  CHECK(kinds_of(graph) == std::vector<OpKind>{OpKind::linear, OpKind::linear_cross_entropy_with_gradient,
                                               OpKind::activation_backward, OpKind::linear_backward_weight});
  const GraphNode& loss = only(graph, OpKind::linear_cross_entropy_with_gradient);
  CHECK(loss.phase == Phase::backward);
  CHECK(graph.layers[static_cast<std::size_t>(loss.layer)].path == "head");
  CHECK(attributes_of_loss(graph).chunk_rows == 7);
  CHECK(attributes_of_loss(graph).input_gradient);
  CHECK_FALSE(attributes_of_loss(graph).scaled);
  CHECK(loss.outputs[0] == gradient_of(graph, "head.weight"));
  CHECK(loss.outputs[1] == gradient_of(graph, "head.bias"));
  for (const int output : {0, 1})
    CHECK(graph.values[static_cast<std::size_t>(loss.outputs[static_cast<std::size_t>(output)])].category ==
          Category::gradient);
  CHECK(graph.nodes[2].inputs[0] == loss.outputs[2]);
  check_order(graph);
}

TEST_CASE("in evaluation the last layer and its loss become one op") {
  const Graph graph = graph_of(experiment_of(two_layers), 7, GraphMode::evaluation);
  CHECK(kinds_of(graph) == std::vector<OpKind>{OpKind::linear, OpKind::linear_cross_entropy});
  check_order(graph);
}

TEST_CASE("a model of one layer has no gradient of its input to make") {
  const Graph graph = graph_of(experiment_of("{linear: {out: 1500, bias: false}}"), 7);
  CHECK(kinds_of(graph) == std::vector<OpKind>{OpKind::linear_cross_entropy_with_gradient});
  CHECK_FALSE(attributes_of_loss(graph).input_gradient);
  CHECK_FALSE(attributes_of_loss(graph).bias);
  check_order(graph);
}

TEST_CASE("smoothing and class weights go along") {
  std::string weights = "0.5";
  for (int i = 1; i < 1500; ++i) weights += ", " + std::to_string(1 + i % 3);
  const Graph graph =
      graph_of(experiment_of(two_layers,
                             "loss: {type: cross_entropy, label_smoothing: 0.1, class_weights: [" + weights + "]}\n"),
               automatic);
  const Graph chunked =
      graph_of(experiment_of(two_layers,
                             "loss: {type: cross_entropy, label_smoothing: 0.1, class_weights: [" + weights + "]}\n"),
               5);
  CHECK(attributes_of_loss(chunked).loss ==
        attributes_of<CrossEntropyAttributes>(only(graph, OpKind::cross_entropy).op));
}

TEST_CASE("auto leaves small logits, and models that end in something else, as they are") {
  const auto unchanged = [](const std::string& layers, const std::string& rest = "") {
    const Experiment experiment = experiment_of(layers, rest);
    CHECK(kinds_of(graph_of(experiment, automatic)) == kinds_of(graph_of(experiment, 0)));
  };
  unchanged(two_layers);
  unchanged("{linear: {out: 1500}}, relu");
  unchanged("{linear: {out: 1500}}, dropout");
}

TEST_CASE("a number of rows where there is nothing to cut is refused") {
  for (const std::string layers : {"{linear: {out: 1500}}, relu", "{linear: {out: 1500}}, {dropout: {p: 0.5}}",
                                   "{linear: {out: 1500}}, {residual: {layers: [{linear: {out: 1500}}]}}"})
    CHECK_THROWS_WITH(graph_of(experiment_of(layers), 7), Catch::Matchers::Contains("memory.chunked_loss is 7"));
  CHECK_THROWS_WITH(graph_of(experiment_of(two_layers, "freeze: [head]\n"), 7),
                    Catch::Matchers::Contains("memory.chunked_loss is 7, but the last layer's weight is frozen"));
  DataDescription numbers = described_data({24}, 1500, 96);
  numbers.target = {DType::f32, Shape{numbers.num_outputs}};
  Graph graph = build_graph(experiment_of(two_layers, "loss: mse\n"), numbers, 32, GraphMode::evaluation);
  CHECK_THROWS_AS(chunk_loss(graph, 7, graph.batch_size), ConfigError);
}
