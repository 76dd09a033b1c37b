#include <catch2/catch.hpp>

#include <algorithm>

#include "engine/config/load_experiment.h"
#include "engine/program/mask_reads.h"
#include "engine/program/relu_fusion.h"
#include "tests/device/described_device.h"
#include "tests/program/check_order.h"
#include "tests/program/kept_values.h"

using namespace trainer;

namespace {

/// As compile() makes it, with or without what saves masks. Images are 16×16 of 3 channels, 4 of them.
Graph graph_of(const std::string& layers, bool enabled, GraphMode mode = GraphMode::training) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\n"
      "model:\n  layers: [" +
          layers + ", flatten, {linear: {out: 10}}]\n",
      "test.yaml");
  Graph graph = build_graph(experiment, described_data({16, 16, 3}, 10, 64, 20), 4, mode);
  fuse_relu_into_pooling(graph, enabled);
  fuse_relu(graph);
  if (mode == GraphMode::evaluation) return graph;
  differentiate(graph);
  read_masks_further_on(graph, enabled);
  return graph;
}

int count(const Graph& graph, OpKind kind) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const GraphNode& node) { return node.op.kind == kind; }));
}

const GraphNode& find(const Graph& graph, OpKind kind) {
  const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                 [&](const GraphNode& candidate) { return candidate.op.kind == kind; });
  REQUIRE(node != graph.nodes.end());
  return *node;
}

bool pools_with_relu(const Graph& graph) {
  return attributes_of<Pool2dAttributes>(find(graph, OpKind::maxpool2d).op).relu;
}

bool reads_mask_off(const Graph& graph, const std::string& value) {
  const auto kept = kept_values(graph);
  const auto found = kept.find(value);
  return found != kept.end() && found->second.readers.contains(OpKind::activation_backward);
}

const std::string wide_conv = "{conv2d: {out: 8, kernel: 3, padding: 1}}";
constexpr std::int64_t conv_bytes = 4 * 16 * 16 * 8 * 4;

}  // namespace

TEST_CASE("A convolution with ReLU before max-pooling is not kept, but for a byte for each window") {
  const std::string layers = wide_conv + ", relu, {maxpool2d: {kernel: 2}}";
  const auto before = kept_values(graph_of(layers, false));
  const auto after = kept_values(graph_of(layers, true));
  REQUIRE(before.contains("conv2d output"));
  CHECK(before.at("conv2d output").num_bytes == conv_bytes);
  CHECK(before.at("conv2d output").readers == std::set{OpKind::activation_backward});
  CHECK_FALSE(after.contains("conv2d output"));
  CHECK(after.at("maxpool2d indices").num_bytes == conv_bytes / 4 / 4);
  CHECK(kept_bytes(graph_of(layers, true)) == kept_bytes(graph_of(layers, false)) - conv_bytes);
  CHECK(count(graph_of(layers, true), OpKind::activation_backward) == 0);
}

TEST_CASE("ReLU goes into the max-pooling before or behind it, in training and in evaluation") {
  for (const std::string& layers : {wide_conv + ", relu, {maxpool2d: {kernel: 3, stride: 2, padding: 1}}",
                                    wide_conv + ", {maxpool2d: {kernel: 3, stride: 2, padding: 1}}, relu"}) {
    for (const GraphMode mode : {GraphMode::training, GraphMode::evaluation}) {
      const Graph graph = graph_of(layers, true, mode);
      CHECK(pools_with_relu(graph));
      CHECK_FALSE(attributes_of<Conv2dAttributes>(find(graph, OpKind::conv2d).op).relu);
      CHECK(count(graph, OpKind::activation) == 0);
      CHECK(find(graph, OpKind::maxpool2d).inputs[0] == find(graph, OpKind::conv2d).outputs[0]);
    }
  }
}

TEST_CASE("ReLU stays where something besides the max-pooling reads it") {
  const Graph graph =
      graph_of(wide_conv + ", relu, {residual: {layers: [{maxpool2d: {kernel: 3, stride: 1, padding: 1}}]}}", true);
  CHECK_FALSE(pools_with_relu(graph));
  CHECK(attributes_of<Conv2dAttributes>(find(graph, OpKind::conv2d).op).relu);
}

TEST_CASE("Windows of 256 elements have no byte to spare for ReLU") {
  for (const std::string& layers :
       {wide_conv + ", relu, {maxpool2d: {kernel: 16}}", wide_conv + ", {maxpool2d: {kernel: 16}}, relu"}) {
    const Graph graph = graph_of(layers, true);
    CHECK_FALSE(pools_with_relu(graph));
    CHECK(count(graph, OpKind::activation_backward) == 1);
  }
  CHECK(pools_with_relu(graph_of(wide_conv + ", relu, {maxpool2d: {kernel: [15, 16]}}", true)));
}

TEST_CASE("Other activations stay before max-pooling") {
  const Graph graph = graph_of(wide_conv + ", tanh, {maxpool2d: {kernel: 2}}", true);
  CHECK_FALSE(pools_with_relu(graph));
  CHECK(count(graph, OpKind::activation) == 1);
}

TEST_CASE("The gradient of ReLU reads its mask off the last dropout or flatten behind it") {
  struct Example {
    std::string layers, masked;
    OpKind last;
  };
  for (const Example& example :
       {Example{wide_conv + ", relu, dropout, " + wide_conv, "conv2d output", OpKind::dropout},
        Example{wide_conv + ", relu, flatten", "conv2d output", OpKind::flatten},
        Example{wide_conv + ", relu, dropout, flatten", "conv2d output", OpKind::flatten},
        Example{wide_conv + ", relu, flatten, dropout", "conv2d output", OpKind::dropout},
        Example{"flatten, {linear: {out: 70}}, relu, dropout, dropout", "linear output", OpKind::dropout}}) {
    INFO(example.layers);
    const Graph before = graph_of(example.layers, false), after = graph_of(example.layers, true);
    CHECK(before.nodes.size() == after.nodes.size());
    ValueId last = -1;
    for (const GraphNode& node : after.nodes)
      if (node.op.kind == example.last) last = node.outputs[0];
    REQUIRE(count(after, OpKind::activation_backward) == 1);
    const GraphNode& gradient = find(after, OpKind::activation_backward);
    CHECK(gradient.inputs[1] == last);
    CHECK(gradient.op.inputs[1] == after.values[last].type);
    CHECK(reads_mask_off(before, example.masked));
    CHECK_FALSE(reads_mask_off(after, example.masked));
    CHECK(kept_bytes(after) < kept_bytes(before));
    check_order(after);
  }
}

TEST_CASE("The gradient of ReLU reads ReLU's output where more than dropout does, and that of tanh always") {
  for (const std::string& layers :
       {wide_conv + ", relu, {residual: {layers: [dropout]}}", wide_conv + ", tanh, dropout"}) {
    const Graph before = graph_of(layers, false), after = graph_of(layers, true);
    CHECK(find(after, OpKind::activation_backward).inputs == find(before, OpKind::activation_backward).inputs);
  }
}

TEST_CASE("Batch norm with ReLU keeps what went into it and nothing else") {
  const Graph graph = graph_of(wide_conv + ", batchnorm2d, relu, {avgpool2d: {kernel: 2}}", true);
  const auto kept = kept_values(graph);
  CHECK_FALSE(kept.contains("batchnorm2d output"));
  CHECK(kept.at("conv2d output").readers == std::set{OpKind::batchnorm2d_backward});
}
