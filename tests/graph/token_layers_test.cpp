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

Experiment patch_network(const std::string& layers) {
  return parse_experiment(
      "data: {type: synthetic, shape: [8, 12, 3], classes: 10, samples: 64}\nmodel: {layers: [" + layers + "]}\n",
      "test.yaml");
}

Graph patch_graph(const std::string& layers) {
  return build_graph(patch_network(layers), described_data({8, 12, 3}, 10, 64), 2, GraphMode::training);
}

std::string patch_mistake(const std::string& layers) {
  try {
    patch_graph(layers);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("patches become tokens, a class token goes in front of them and is selected again") {
  Graph graph = patch_graph(
      "patch_embedding: {size: 4, dim: 5}, class_token, layernorm: {name: norm}, select_token: {name: head}, linear: "
      "{out: 10}");
  std::vector<std::string> parameters;
  for (const Parameter& parameter : graph.parameters)
    parameters.push_back(parameter.name + " " + parameter.type.shape.to_string());
  CHECK(parameters == std::vector<std::string>{"0.weight 5×4×4×3", "0.bias 5", "1.weight 5", "norm.weight 5",
                                               "norm.bias 5", "4.weight 10×5", "4.bias 10"});
  CHECK(graph.parameters[2].start == Parameter::Start::zeros);
  CHECK_FALSE(graph.parameters[2].decays);
  differentiate(graph);
  std::vector<std::string> ops;
  for (const GraphNode& node : graph.nodes)
    for (const char* const kind : {"conv2d", "repeat_row", "concat", "layernorm", "channel_slice", "sum_rows"})
      if (const std::string name(name_of(node.op.kind)); name.starts_with(kind))
        ops.push_back(name + " " + node.op.outputs[0].shape.to_string());
  // No gradient of the images is taken; that of the six patches' tokens is a slice of all seven.
  CHECK(ops == std::vector<std::string>{"conv2d 2×2×3×5", "repeat_row 2×5", "concat 2×35", "layernorm 2×7×5",
                                        "channel_slice 2×5", "channel_slice_backward 2×35", "layernorm_backward 2×7×5",
                                        "channel_slice 2×5", "channel_slice 2×30", "sum_rows 5",
                                        "conv2d_backward_weight 5×4×4×3"});
}

TEST_CASE("the first row of a token type embedding is added to each token, and it alone gets a gradient") {
  const std::string patches = "patch_embedding: {size: [8, 2], dim: 4, bias: false}, ";
  Graph graph = patch_graph(patches + "token_type_embedding: {name: type}, flatten, linear: {out: 10}");
  differentiate(graph);
  const auto find = [&](OpKind kind) {
    const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const GraphNode& each) { return each.op.kind == kind; });
    REQUIRE(node != graph.nodes.end());
    return node;
  };
  const auto forward = find(OpKind::position_embedding);
  CHECK(forward->op.inputs[0].shape == Shape{12, 1, 4});
  CHECK(forward->op.inputs[1].shape == Shape{2, 4});
  CHECK(graph.layers[forward->layer].output.shape == Shape{2, 6, 4});
  CHECK(graph.parameters[1].name == "type.weight");
  CHECK(find(OpKind::position_embedding_backward)->op.inputs[0].shape == Shape{12, 1, 4});
  CHECK_THAT(patch_mistake("flatten, token_type_embedding, linear: {out: 10}"),
             Contains("token_type_embedding takes tokens"));
}

TEST_CASE("tokens are counted from both ends, and their mean is taken") {
  const std::string patches = "patch_embedding: {size: [8, 2], dim: 4, bias: false}, ";
  const std::string head = ", linear: {out: 10}";
  for (const auto& [index, first] : {std::pair{"0", 0}, {"5", 20}, {"-1", 20}, {"-6", 0}}) {
    const Graph graph = patch_graph(patches + "select_token: {index: " + index + "}" + head);
    std::int64_t found = -1;
    for (const GraphNode& node : graph.nodes)
      if (node.op.kind == OpKind::channel_slice) found = attributes_of<ChannelSliceAttributes>(node.op).first;
    CHECK(found == first);
  }
  const Graph mean = patch_graph(patches + "slice: {first: 1, size: 3}, global_avgpool" + head);
  const auto pool = std::find_if(mean.nodes.begin(), mean.nodes.end(),
                                 [](const GraphNode& node) { return node.op.kind == OpKind::global_avgpool; });
  REQUIRE(pool != mean.nodes.end());
  CHECK(pool->op.inputs[0].shape == Shape{2, 6, 1, 3});
  CHECK(pool->op.outputs[0].shape == Shape{2, 3});
  CHECK_THAT(patch_mistake(patches + "select_token: {index: 6}" + head), Contains("there is no token 6 of 6"));
  CHECK_THAT(patch_mistake(patches + "select_token: {index: -7}" + head), Contains("there is no token -7 of 6"));
  CHECK_THAT(patch_mistake(patches + "slice: {first: 2, size: 3}, global_avgpool" + head),
             Contains("slice takes the channels from 2 to below 5, and its input is 2×6×4: 4 channels"));
  CHECK_THAT(patch_mistake("patch_embedding: {size: 5, dim: 4}, global_avgpool" + head),
             Contains("cuts images into patches of 5×5, which do not divide its input 2×8×12×3"));
  CHECK_THAT(patch_mistake("flatten, patch_embedding: {size: 5, dim: 4}" + head), Contains("patch_embedding"));
  CHECK_THAT(patch_mistake("class_token, flatten" + head), Contains("class_token takes tokens"));
  CHECK_THAT(patch_mistake("flatten, select_token" + head), Contains("select_token takes tokens"));
}
