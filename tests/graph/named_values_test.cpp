#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/graph/graph.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

const std::string two_last_layers = "    - flatten\n    - linear: {out: 10}\n";

Experiment network_of(const std::string& layers) {
  return parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  layers:\n" + layers, "test.yaml");
}

std::string mistake_in(const std::string& layers) {
  try {
    build_graph(network_of(layers), described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("named values make the graph that residuals make") {
  const std::string body = "{conv2d: {out: 3, kernel: 3, padding: 1}}, relu, {conv2d: {out: 3, kernel: 1";
  const Experiment residual = network_of("    - relu\n    - residual: {layers: [" + body + "}}]}\n" + two_last_layers);
  const Experiment named =
      network_of("    - relu: {name: x}\n    - sequential: {layers: [" + body +
                 ", name: last}}], name: branch}\n    - add: {from: [branch.last, x]}\n" + two_last_layers);
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  Graph a = build_graph(residual, data, 2, GraphMode::training), b = build_graph(named, data, 2, GraphMode::training);
  differentiate(a);
  differentiate(b);
  REQUIRE(a.nodes.size() == b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    CHECK(a.nodes[i].op.kind == b.nodes[i].op.kind);
    CHECK(a.nodes[i].inputs == b.nodes[i].inputs);
    CHECK(a.nodes[i].outputs == b.nodes[i].outputs);
  }
}

TEST_CASE("a name is sought in its list, then in those around it, and inside a block by its path") {
  // The inner x hides the outer one; each round of a repetition has its own.
  const Experiment experiment = network_of(
      "    - relu: {name: x}\n"
      "    - repeat: {times: 2, name: r, layers: [{tanh: {name: x}}, {add: {from: [x, input]}}]}\n"
      "    - add: {from: [r.1.1, r.0.x, x]}\n" +
      two_last_layers);
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  std::vector<const GraphNode*> sums;
  for (const GraphNode& node : graph.nodes)
    if (node.op.kind == OpKind::add) sums.push_back(&node);
  REQUIRE(sums.size() == 4);
  const auto path_of = [&](ValueId value) { return graph.layers[graph.values[value].layer].path; };
  CHECK(path_of(sums[0]->inputs[0]) == "r.0.x");
  CHECK(path_of(sums[0]->inputs[1]) == "input");
  CHECK(path_of(sums[1]->inputs[0]) == "r.1.x");
  CHECK(path_of(sums[2]->inputs[0]) == "r.1.1");
  CHECK(path_of(sums[2]->inputs[1]) == "r.0.x");
  CHECK(path_of(sums[3]->inputs[1]) == "x");
}

TEST_CASE("several outputs are multiplied or put side by side, and each gets its share of the gradient") {
  const Experiment experiment = network_of(
      "    - conv2d: {out: 4, kernel: 1, name: x}\n    - global_avgpool\n    - sigmoid: {name: gate}\n"
      "    - multiply: {from: [x, gate], name: gated}\n    - tanh: {from: x, name: y}\n"
      "    - multiply: {from: [y, x, gate], name: product}\n    - concat: {from: [product, gated, y, x]}\n"
      "    - concat: {from: [gate, '6'], name: never}\n" +
      two_last_layers);
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  CHECK_THROWS_WITH(
      build_graph(experiment, data, 2, GraphMode::training),
      Contains("test.yaml:11:22: error: layer 'never' cannot concatenate 2×4 of 'gate' and 2×8×8×16 of '6'"));

  const Experiment valid = network_of(
      "    - conv2d: {out: 4, kernel: 1, name: x}\n    - global_avgpool\n    - sigmoid: {name: gate}\n"
      "    - tanh: {from: x, name: y}\n    - multiply: {from: [y, x, gate], name: product}\n"
      "    - concat: {from: [product, y, input]}\n" +
      two_last_layers);
  Graph graph = build_graph(valid, data, 2, GraphMode::training);
  differentiate(graph);
  std::vector<std::string> ops;
  for (const GraphNode& node : graph.nodes)
    if (const std::string name(name_of(node.op.kind));
        name.starts_with("multiply") || name == "concat" || name == "channel_slice")
      ops.push_back(name + " " + node.op.outputs[0].shape.to_string());
  // Of the input no gradient is taken; the gate's is a sum over pixels.
  CHECK(ops == std::vector<std::string>{"multiply 2×8×8×4", "multiply 2×8×8×4", "concat 2×8×8×11",
                                        "channel_slice 2×8×8×4", "channel_slice 2×8×8×4", "multiply_backward_gate 2×4",
                                        "multiply 2×8×8×4", "multiply 2×8×8×4", "multiply 2×8×8×4"});
}

TEST_CASE("gated units halve their input or take two, and are told where that is not possible") {
  const DataDescription data = described_data({8}, 10, 64);
  const Graph graph =
      build_graph(network_of("    - linear: {out: 12}\n    - swiglu: {name: half}\n    - tanh: {name: up}\n"
                             "    - geglu: {approximate: tanh, from: [half, up]}\n"
                             "    - linear: {out: 10}\n"),
                  data, 2, GraphMode::evaluation);
  std::vector<std::string> glus;
  for (const GraphNode& node : graph.nodes)
    if (node.op.kind == OpKind::glu) {
      std::string text;
      for (const TensorType& type : node.op.inputs) text += type.shape.to_string() + " ";
      glus.push_back(text + "to " + node.op.outputs[0].shape.to_string());
    }
  CHECK(glus == std::vector<std::string>{"2×12 to 2×6", "2×6 2×6 to 2×6"});
  const std::string last = "    - linear: {out: 10}\n";
  const auto mistake = [&](const std::string& layers) { return mistake_in(layers + last); };
  CHECK_THAT(mistake("    - flatten\n    - linear: {out: 7}\n    - swiglu\n"),
             Contains("layer '2': a gated unit halves the last dimension, which must be even; its input is 2×7"));
  CHECK_THAT(mistake("    - flatten\n    - linear: {out: 4, name: a}\n    - linear: {out: 3, name: b}\n"
                     "    - swiglu: {from: [a, b]}\n"),
             Contains("cannot gate 2×4 of 'a' and 2×3 of 'b'"));
  CHECK_THAT(mistake("    - relu: {name: a}\n    - swiglu: {from: [a, a, a]}\n"),
             Contains("'swiglu' takes one layer, or 2") && Contains("a layer, or 2 layers: from: [a, b]"));
}

TEST_CASE("learned slopes start as told, one or one for each channel") {
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const Graph graph = build_graph(network_of("    - prelu\n    - prelu: {num: 3, init: 0.5}\n" + two_last_layers), data,
                                  2, GraphMode::training);
  CHECK(graph.parameters.at(0).name == "0.weight");
  CHECK(graph.parameters[0].type.shape == Shape{1});
  CHECK((graph.parameters[0].start == Parameter::Start::constant && graph.parameters[0].constant == 0.25));
  CHECK_FALSE(graph.parameters[0].decays);
  CHECK(graph.parameters.at(1).type.shape == Shape{3});
  CHECK(graph.parameters[1].constant == 0.5);
  CHECK_THAT(mistake_in("    - prelu: {num: 4}\n" + two_last_layers),
             Contains("test.yaml:4:7: error: layer '0': prelu has 4 slopes, and its input is 2×8×8×3: 3 channels"));
}

TEST_CASE("names that are not there, outputs that nobody reads and shapes that differ are told with their place") {
  CHECK_THAT(mistake_in("    - relu: {name: left}\n    - tanh\n    - add: {from: [lft, left]}\n" + two_last_layers),
             Contains("test.yaml:6:19: error: no layer before this one is called 'lft'") && Contains("such as left"));
  CHECK_THAT(mistake_in("    - relu: {from: later}\n    - tanh: {name: later}\n" + two_last_layers),
             Contains("test.yaml:4:20: error: no layer before this one is called 'later'"));
  CHECK_THAT(mistake_in("    - relu: {name: a}\n    - tanh: {name: b}\n    - sigmoid: {from: a}\n" + two_last_layers),
             Contains("test.yaml:5:7: error: no layer reads the output of layer 'b'"));
  CHECK_THAT(mistake_in("    - relu: {name: a}\n    - maxpool2d: {kernel: 2, name: b}\n    - add: {from: [a, b]}\n" +
                        two_last_layers),
             Contains("test.yaml:6:19: error: layer '2' cannot add 2×8×8×3 of 'a' and 2×4×4×3 of 'b'"));
  CHECK_THAT(
      mistake_in("    - relu: {name: a}\n    - maxpool2d: {kernel: 2, name: b}\n    - multiply: {from: [a, b]}\n" +
                 two_last_layers),
      Contains("test.yaml:6:24: error: layer '2' cannot multiply 2×8×8×3 of 'a' and 2×4×4×3 of 'b'") &&
          Contains("behind images (batch, channels) to gate them"));
  // A gate stands behind what it gates.
  CHECK_THAT(mistake_in("    - relu: {name: a}\n    - global_avgpool: {name: b}\n    - multiply: {from: [b, a]}\n" +
                        two_last_layers),
             Contains("cannot multiply 2×3 of 'b' and 2×8×8×3 of 'a'"));
  CHECK_THAT(mistake_in("    - relu: {name: a}\n    - maxpool2d: {kernel: 2, name: b}\n    - concat: {from: [a, b]}\n" +
                        two_last_layers),
             Contains("test.yaml:6:22: error: layer '2' cannot concatenate 2×8×8×3 of 'a' and 2×4×4×3 of 'b'"));
  // What is named inside a block is not seen from outside but by its path.
  CHECK_THAT(mistake_in("    - sequential: {layers: [{relu: {name: inner}}, tanh]}\n    - sigmoid: {from: inner}\n" +
                        two_last_layers),
             Contains("no layer before this one is called 'inner'"));
}

TEST_CASE("what from takes is told where it is wrong, and is written as it was read") {
  const std::string two = "    - relu: {name: a}\n    - tanh: {name: b}\n    - ";
  CHECK_THAT(mistake_in(two + "add\n"), Contains("'add' needs 'from'") && Contains("add: {from: [left, right]}"));
  CHECK_THAT(mistake_in(two + "add: {name: c}\n"), Contains("'add' needs 'from'"));
  CHECK_THAT(mistake_in(two + "concat\n"), Contains("'concat' needs 'from'"));
  CHECK_THAT(mistake_in(two + "multiply: {from: [a]}\n"), Contains("'multiply' takes several layers"));
  for (const auto& [typed, meant] : {std::pair{"cat", "concat"},
                                     {"Concatenate", "concat"},
                                     {"mul", "multiply"},
                                     {"LeakyReLU", "leaky_relu"},
                                     {"ReLU6", "relu6"},
                                     {"PReLU", "prelu"},
                                     {"h_swish", "hardswish"},
                                     {"Hardsigmoid", "hardsigmoid"}})
    CHECK_THAT(mistake_in(two + typed + "\n"), Contains(std::string("did you mean '") + meant + "'"));
  CHECK_THAT(mistake_in(two + "add: {from: a}\n"), Contains("'add' takes several layers"));
  CHECK_THAT(mistake_in(two + "add: {from: [a]}\n"), Contains("'add' takes several layers"));
  CHECK_THAT(mistake_in(two + "add: {from: [a, a]}\n"), Contains("'from' names 'a' twice"));
  CHECK_THAT(mistake_in(two + "add: {from: [a, {b: 1}]}\n"), Contains("'from' names no layer"));
  CHECK_NOTHROW(network_of(two + "swiglu: {from: [b, b]}\n" + two_last_layers));
  CHECK_THAT(mistake_in(two + "relu: {from: [a, b]}\n"), Contains("'from' names no layer"));
  CHECK_THAT(mistake_in(two + "relu: {from: 'a b'}\n"), Contains("'from' names no layer"));
  CHECK_THAT(mistake_in(two + "relu: {form: a}\n"), Contains("did you mean 'from'?"));
  const Experiment experiment = network_of(
      "    - relu: {name: a}\n    - tanh: {name: b, from: a}\n    - add: {from: [a, b]}\n" + two_last_layers);
  const std::string text = resolved_yaml(experiment);
  const Experiment again = parse_experiment(text, "again.yaml");
  CHECK(resolved_yaml(again) == text);
  CHECK(again.layers[1].from == std::vector<std::string>{"a"});
  CHECK(again.layers[2].from == std::vector<std::string>{"a", "b"});
}
