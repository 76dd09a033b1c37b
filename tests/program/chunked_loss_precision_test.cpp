#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/program/chunked_loss.h"
#include "engine/program/fusion.h"
#include "engine/program/precision.h"
#include "engine/program/relu_fusion.h"
#include "tests/device/described_device.h"
#include "tests/program/check_order.h"

using namespace trainer;

namespace {

Graph graph_of(GraphMode mode, const PrecisionOptions& precision) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [24], classes: 50, samples: 96}\n"
      "model: {layers: [{linear: {out: 40}}, relu, {linear: {out: 50}}]}\n",
      "test.yaml");
  Graph graph = build_graph(experiment, described_data({24}, 50, 96), 32, mode);
  apply_precision(graph, precision);
  fuse_relu(graph);
  if (mode == GraphMode::training) differentiate(graph);
  chunk_loss(graph, 7, graph.batch_size);
  return graph;
}

const GraphNode& only_node(const Graph& graph, OpKind kind) {
  const auto is_kind = [&](const GraphNode& node) { return node.op.kind == kind; };
  REQUIRE(std::count_if(graph.nodes.begin(), graph.nodes.end(), is_kind) == 1);
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), is_kind);
}

}  // namespace

TEST_CASE("casts of mixed precision belong to a loss in chunks, and its gradients of weights are made in f32") {
  for (const DType type : {DType::f16, DType::bf16}) {
    const Graph graph = graph_of(GraphMode::training, {.type = type, .scales_loss = type == DType::f16});
    check_order(graph);
    for (const GraphNode& node : graph.nodes) CHECK(node.op.kind != OpKind::scale_gradient);
    const GraphNode& loss = only_node(graph, OpKind::linear_cross_entropy_with_gradient);
    const bool is_scaled = attributes_of<LinearCrossEntropyAttributes>(loss.op).scaled;
    CHECK(is_scaled == (type == DType::f16));
    CHECK(is_scaled == (loss.inputs.back() == graph.loss_scale));
    CHECK(loss.op.inputs[0].dtype == type);
    CHECK(loss.op.inputs[1].dtype == type);
    CHECK(loss.op.outputs[0].dtype == DType::f32);
    CHECK(loss.op.outputs[1].dtype == DType::f32);
    CHECK(loss.op.outputs[2].dtype == type);
    CHECK(loss.outputs[0] == graph.parameter_gradients[2]);
    CHECK(loss.outputs[1] == graph.parameter_gradients[3]);
    check_order(graph_of(GraphMode::evaluation, {.type = type}));
    CHECK(only_node(graph_of(GraphMode::evaluation, {.type = type}), OpKind::linear_cross_entropy).op.inputs[0].dtype ==
          type);
  }
}

TEST_CASE("gradients that are kept in 16 bit are made in 16 bit by a loss in chunks") {
  const Graph graph = graph_of(GraphMode::training, {.type = DType::bf16, .f32_gradients = false});
  check_order(graph);
  CHECK(only_node(graph, OpKind::linear_cross_entropy_with_gradient).op.outputs[0].dtype == DType::bf16);
}
