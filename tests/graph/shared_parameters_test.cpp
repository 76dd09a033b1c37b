#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/config/experiment_reader.h"
#include "engine/config/load_experiment.h"
#include "engine/graph/graph.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

Experiment sharing_network(const std::string& layers) {
  return parse_experiment("data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  layers:\n" +
                              layers + "    - flatten\n    - linear: {out: 10}\n",
                          "test.yaml");
}

Graph sharing_graph(const std::string& layers) {
  Graph graph = build_graph(sharing_network(layers), described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  differentiate(graph);
  return graph;
}

std::string sharing_mistake(const std::string& layers) {
  try {
    sharing_graph(layers);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> names_of_parameters(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) names.push_back(parameter.name);
  return names;
}

/// Names and categories of what is made of gradients of `role`, in order.
std::vector<std::string> gradients_of(const Graph& graph, const std::string& role) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes)
    for (const ValueId output : node.outputs)
      if (const Value& value = graph.values[output]; value.role.starts_with(role))
        names.push_back(graph.layers[value.layer].path + "." + value.role +
                        (value.category == Category::gradient ? ", gradient" : ""));
  return names;
}

}  // namespace

TEST_CASE("a layer that shares parameters reads those of the other, whose gradient is the sum over its uses") {
  const Graph graph = sharing_graph(
      "    - conv2d: {out: 3, kernel: 3, padding: 1, name: a}\n"
      "    - conv2d: {out: 3, kernel: 3, padding: 1, stride: 2, name: b, share: a}\n"
      "    - conv2d: {out: 3, kernel: 3, dilation: 1, name: c, share: b}\n");
  CHECK(names_of_parameters(graph) == std::vector<std::string>{"a.weight", "a.bias", "4.weight", "4.bias"});
  std::vector<ValueId> weights;
  for (const GraphNode& node : graph.nodes)
    if (node.op.kind == OpKind::conv2d) weights.push_back(node.inputs[1]);
  CHECK(weights == std::vector<ValueId>(3, graph.parameter_values[0]));
  CHECK(gradients_of(graph, "weight.grad") ==
        std::vector<std::string>{"4.weight.grad, gradient", "c.weight.grad.partial", "b.weight.grad.partial",
                                 "b.weight.grad.sum", "a.weight.grad.partial", "a.weight.grad, gradient"});
  std::vector<std::string> owners;
  std::vector<std::int64_t> counts;
  for (const Layer& layer : graph.layers)
    if (layer.kind == "conv2d") {
      owners.push_back(layer.shares);
      counts.push_back(layer.num_parameters);
    }
  CHECK(owners == std::vector<std::string>{"", "a", "a"});
  CHECK(counts == std::vector<std::int64_t>{84, 0, 0});
}

TEST_CASE("a list of layers shares parameters with a list of the same names, layer by layer") {
  const std::string inner = "layers: [{conv2d: {out: 3, kernel: 1, name: w}}, batchnorm2d, {prelu: {num: 3}}]";
  const Graph graph =
      sharing_graph("    - sequential: {name: a, " + inner + "}\n    - sequential: {name: b, share: a, " + inner +
                    "}\n    - conv2d: {out: 3, kernel: 1, share: b.w}\n");
  CHECK(names_of_parameters(graph) == std::vector<std::string>{"a.w.weight", "a.w.bias", "a.1.running_mean",
                                                               "a.1.running_var", "a.1.weight", "a.1.bias",
                                                               "a.2.weight", "4.weight", "4.bias"});
  CHECK_THAT(
      sharing_mistake("    - sequential: {name: a, " + inner +
                      "}\n    - sequential: {share: a, layers: [{conv2d: {out: 3, kernel: 1}}]}\n"),
      Contains("test.yaml:5:27: error: layer '1.0' cannot share the parameters of 'a.0': there is no layer 'a.0'"));
  CHECK_THAT(sharing_mistake("    - sequential: {name: a, " + inner +
                             "}\n    - sequential: {share: a, layers: [{conv2d: {out: 3, kernel: 1, name: w}}]}\n"),
             Contains("test.yaml:5:27: error: layer '1' cannot share the parameters of 'a': 'a.1' has a running_mean, "
                      "and '1.1' has none"));
}

TEST_CASE("blocks share by name, and what is written out says so") {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  blocks:\n"
      "    twice: {parameters: {of: }, layers: [{conv2d: {out: 3, kernel: 1, share: '${of}'}}, relu]}\n"
      "    half: {layers: [{conv2d: {out: 3, kernel: 1}}, relu]}\n"
      "  layers:\n    - conv2d: {out: 3, kernel: 1, name: a}\n    - twice: {of: a}\n    - half: {name: left}\n"
      "    - half: {share: left}\n    - flatten\n    - linear: {out: 10}\n",
      "test.yaml");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  CHECK(names_of_parameters(graph) ==
        std::vector<std::string>{"a.weight", "a.bias", "left.0.weight", "left.0.bias", "5.weight", "5.bias"});
  CHECK_THAT(resolved_yaml(experiment), Contains("share: left") && Contains("share: a"));
}

TEST_CASE("layers that cannot share parameters are told with their place and what differs") {
  const std::string a = "    - conv2d: {out: 4, kernel: 1, name: a}\n";
  CHECK_THAT(sharing_mistake(a + "    - conv2d: {out: 4, kernel: 1, share: later}\n"
                                 "    - conv2d: {out: 4, kernel: 1, name: later}\n"),
             Contains("test.yaml:5:42: error: no layer before this one is called 'later'"));
  CHECK_THAT(sharing_mistake(a + "    - conv2d: {out: 4, kernel: 1, share: a}\n"),
             Contains("test.yaml:5:42: error: layer '1' cannot share the parameters of 'a': its weight is 4×4×1×1, and "
                      "that of 'a' is 4×3×1×1"));
  CHECK_THAT(sharing_mistake(a + "    - linear: {out: 4, share: a}\n"),
             Contains("cannot share the parameters of 'a': one is of kind linear, the other conv2d"));
  const std::string square = "    - conv2d: {out: 3, kernel: 1, bias: false, name: a}\n";
  CHECK_THAT(sharing_mistake(square + "    - conv2d: {out: 3, kernel: 1, share: a}\n"),
             Contains("'1' cannot share the parameters of 'a': it has a bias, and 'a' has no bias"));
  CHECK_THAT(sharing_mistake("    - conv2d: {out: 3, kernel: 1, name: a}\n"
                             "    - conv2d: {out: 3, kernel: 1, bias: false, share: a}\n"),
             Contains("'1' cannot share the parameters of 'a': 'a' has a bias, and '1' has none"));
  CHECK_THAT(
      sharing_mistake("    - conv2d: {out: 6, kernel: 1, name: a}\n    - conv2d: {out: 6, kernel: 1, groups: 2, "
                      "name: b}\n    - conv2d: {out: 3, kernel: 1}\n    - conv2d: {out: 6, kernel: 1, share: b}\n"),
      Contains("its weight is 6×3×1×1, and that of 'b' is 6×3×1×1 in 2 groups"));
  CHECK_THAT(sharing_mistake("    - relu: {name: r}\n    - layernorm: {affine: false, share: r}\n"),
             Contains("'r' has no parameters that could be shared"));
  CHECK_THAT(sharing_mistake("    - relu\n    - relu: {share: a}\n"),
             Contains("test.yaml:5:14: error: 'relu' has no parameters that could be shared"));
  CHECK_THAT(sharing_mistake(a + "    - conv2d: {out: 4, kernel: 1, init: zeros, share: a}\n"),
             Contains("test.yaml:5:41: error: 'init' stands beside 'share', whose layer says how they start"));
  CHECK_THAT(sharing_mistake(a + "    - conv2d: {out: 4, kernel: 1, share: [a]}\n"),
             Contains("test.yaml:5:42: error: 'share' names no layer"));
}
