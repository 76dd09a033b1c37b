#include "engine/graph/graph.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "engine/config/load_experiment.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

Experiment experiment_of(const std::string& layers, const std::string& loss = "cross_entropy") {
  return parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n"
      "model:\n  layers:\n" +
          layers + "loss: " + loss + "\n",
      "test.yaml");
}

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) names.push_back(parameter.name);
  return names;
}

int count(const Graph& graph, OpKind kind) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const GraphNode& node) { return node.op.kind == kind; }));
}

}  // namespace

TEST_CASE("parameters are named as PyTorch names those of nested Sequentials") {
  const Experiment experiment = experiment_of(
      "    - conv2d: {out: 4, kernel: 3, padding: 1, bias: false}\n"
      "    - residual: {layers: [{conv2d: {out: 8, kernel: 1}}, relu], shortcut: [{conv2d: {out: 8, kernel: 1}}]}\n"
      "    - repeat: {times: 2, layers: [{batchnorm2d: {name: norm}}]}\n"
      "    - flatten\n"
      "    - linear: {out: 10, name: head}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  CHECK(parameter_names(graph) ==
        std::vector<std::string>{"0.weight", "1.layers.0.weight", "1.layers.0.bias", "1.shortcut.0.weight",
                                 "1.shortcut.0.bias", "2.0.norm.running_mean", "2.0.norm.running_var",
                                 "2.0.norm.weight", "2.0.norm.bias", "2.1.norm.running_mean", "2.1.norm.running_var",
                                 "2.1.norm.weight", "2.1.norm.bias", "head.weight", "head.bias"});
}

TEST_CASE("weights of convolutions are kept with channels last, and saved and started as PyTorch's") {
  const Experiment experiment = experiment_of(
      "    - conv2d: {out: 6, kernel: [2, 5]}\n    - conv2d: {out: 4, kernel: 3, groups: 2}\n"
      "    - flatten\n    - linear: {out: 10}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  const Parameter& plain = graph.parameters.at(0);
  CHECK(plain.type.shape == Shape{6, 2, 5, 3});
  CHECK(file_shape(plain.file_order, plain.type.shape) == Shape{6, 3, 2, 5});
  CHECK((plain.fan_in == 30 && plain.fan_out == 60));
  const Parameter& grouped = graph.parameters.at(2);
  CHECK(grouped.type.shape == Shape{4, 3, 3, 3});
  CHECK((grouped.fan_in == 27 && grouped.fan_out == 36));
  const Parameter& linear = graph.parameters.at(4);
  CHECK(file_shape(linear.file_order, linear.type.shape) == linear.type.shape);
}

TEST_CASE(
    "the weight of a transposed convolution is saved and started as PyTorch's, which counts what comes in by what goes "
    "out") {
  const Experiment experiment = experiment_of(
      "    - conv_transpose2d: {out: 4, kernel: [2, 5], stride: 2}\n"
      "    - conv_transpose2d: {out: 6, kernel: 3, groups: 2}\n    - flatten\n    - linear: {out: 10}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  const Parameter& plain = graph.parameters.at(0);
  CHECK(plain.type.shape == Shape{3, 2, 5, 4});
  CHECK(file_shape(plain.file_order, plain.type.shape) == Shape{3, 4, 2, 5});
  CHECK((plain.fan_in == 40 && plain.fan_out == 30));
  CHECK((graph.parameters.at(1).type.shape == Shape{4} && graph.parameters.at(1).fan_in == 40));
  const Parameter& grouped = graph.parameters.at(2);
  CHECK(grouped.type.shape == Shape{4, 3, 3, 3});
  CHECK((grouped.fan_in == 27 && grouped.fan_out == 36));
}

TEST_CASE("norms and biases do not decay; weights do") {
  const Experiment experiment =
      experiment_of("    - conv2d: {out: 4, kernel: 3}\n    - batchnorm2d\n    - flatten\n    - linear: {out: 10}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  for (const Parameter& parameter : graph.parameters) {
    const bool is_weight = parameter.name == "0.weight" || parameter.name == "3.weight";
    CHECK(parameter.decays == is_weight);
    CHECK(parameter.trainable == (parameter.name.find("running") == std::string::npos));
  }
}

TEST_CASE("rmsnorm has a weight that begins as ones, does not decay, and is shared by name") {
  const Experiment experiment = experiment_of(
      "    - flatten\n    - rmsnorm: {name: n}\n    - rmsnorm: {share: n}\n    - rmsnorm: {affine: false}\n"
      "    - linear: {out: 10, bias: false}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  REQUIRE(graph.parameters.size() == 2);
  const Parameter& weight = graph.parameters.at(0);
  CHECK(weight.name == "n.weight");
  CHECK(weight.type.shape == Shape{8 * 8 * 3});
  CHECK(weight.start == Parameter::Start::ones);
  CHECK((weight.trainable && !weight.decays));
}

namespace {

/// Of samples of 6 positions of 24 features.
Graph graph_over_positions(const std::string& layers, GraphMode mode = GraphMode::training) {
  const Experiment experiment =
      parse_experiment("data: {type: synthetic, shape: [144], classes: 10, samples: 64}\nmodel:\n  layers:\n" + layers +
                           "    - flatten\n    - linear: {out: 10}\nloss: cross_entropy\n",
                       "test.yaml");
  return build_graph(experiment, described_data({6, 24}, 10, 64), 2, mode);
}

const GraphNode& first_node(const Graph& graph, OpKind kind) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const GraphNode& node) { return node.op.kind == kind; });
}

}  // namespace

TEST_CASE("attention takes queries, keys and values out of one input or out of three, and has no parameters") {
  Graph packed = graph_over_positions("    - attention: {heads: 4, kv_heads: 1, causal: true, window: 3}\n");
  const GraphNode& node = first_node(packed, OpKind::attention);
  CHECK(node.inputs.size() == 1);
  CHECK(node.op.outputs[0].shape == Shape{2, 6, 16});
  CHECK(node.op.outputs[1].shape == Shape{2, 4, 6});
  const auto attributes = attributes_of<AttentionAttributes>(node.op);
  CHECK((attributes.kv_heads == 1 && attributes.causal && attributes.window == 3 && attributes.p == 0));
  CHECK(parameter_names(packed) == std::vector<std::string>{"2.weight", "2.bias"});
  differentiate(packed);
  CHECK(count(packed, OpKind::attention_backward) == 0);  // its input is the data

  Graph cross = graph_over_positions(
      "    - linear: {out: 8, name: q}\n    - linear: {out: 4, from: in, name: k}\n"
      "    - linear: {out: 4, from: in, name: v}\n    - attention: {heads: 4, kv_heads: 2, from: [q, k, v]}\n");
  differentiate(cross);
  const GraphNode& backward = first_node(cross, OpKind::attention_backward);
  REQUIRE(backward.op.outputs.size() == 3);
  CHECK(backward.op.outputs[0].shape == Shape{2, 6, 8});
  CHECK(backward.op.outputs[2].shape == Shape{2, 6, 4});
}

TEST_CASE("attention takes the pixels of an image as positions") {
  const Experiment experiment =
      experiment_of("    - attention: {heads: 1, name: a}\n    - flatten\n    - linear: {out: 10}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  const Op& op = first_node(graph, OpKind::attention).op;
  CHECK(op.outputs[0].shape == Shape{2, 8, 8, 1});
  CHECK(op.outputs[1].shape == Shape{2, 1, 64});
}

TEST_CASE("attention drops weights in training alone, each layer others") {
  const std::string layers =
      "    - linear: {out: 24}\n    - attention: {heads: 2, dropout: 0.25}\n    - linear: {out: 24}\n"
      "    - attention: {heads: 2, dropout: 0.25}\n";
  std::vector<AttentionAttributes> found;
  for (const GraphNode& node : graph_over_positions(layers).nodes)
    if (node.op.kind == OpKind::attention) found.push_back(attributes_of<AttentionAttributes>(node.op));
  REQUIRE(found.size() == 2);
  CHECK((found[0].p == 0.25 && found[1].p == 0.25 && found[0].stream != found[1].stream));
  const Graph evaluation = graph_over_positions(layers, GraphMode::evaluation);
  CHECK(attributes_of<AttentionAttributes>(first_node(evaluation, OpKind::attention).op).p == 0);
}

TEST_CASE("attention without products in front takes one layer three times, whose gradient is the sum of three") {
  Graph graph = graph_over_positions("    - linear: {out: 6, name: x}\n    - attention: {heads: 2, from: [x, x, x]}\n");
  const auto attention = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                      [](const GraphNode& node) { return node.op.kind == OpKind::attention; });
  REQUIRE(attention != graph.nodes.end());
  CHECK(attention->inputs == std::vector<ValueId>(3, attention->inputs[0]));
  differentiate(graph);
  CHECK(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode& node) {
          return node.op.kind == OpKind::add && node.phase == Phase::backward;
        }) == 2);
}

TEST_CASE("a norm of heads takes each head's features as a row, and learns one scale for all") {
  for (const char* kind : {"rmsnorm", "layernorm"}) {
    const Graph graph = graph_over_positions(std::string("    - ") + kind + ": {heads: 4, name: norm}\n");
    const GraphNode& node = first_node(graph, OpKind::layernorm);
    CHECK(node.op.inputs[0].shape == Shape{2, 24, 6});
    CHECK(node.op.inputs[1].shape == Shape{6});
    CHECK(graph.values[node.inputs[0]].view_of >= 0);
    const Layer& norm = graph.layers[node.layer];
    CHECK(norm.output.shape == Shape{2, 6, 24});
    const Graph flat = graph_over_positions(std::string("    - flatten\n    - ") + kind + ": {heads: 8}\n");
    CHECK(first_node(flat, OpKind::layernorm).op.inputs[0].shape == Shape{2, 8, 18});
    const Graph single = graph_over_positions(std::string("    - ") + kind + ": {heads: 1}\n");
    CHECK(first_node(single, OpKind::layernorm).op.inputs[0].shape == Shape{2, 6, 24});
    CHECK_THROWS_WITH(graph_over_positions(std::string("    - ") + kind + ": {heads: 5}\n"),
                      Contains("of 5 heads: the features of its input 2×6×24 are no multiple"));
  }
}

TEST_CASE("a layer among others that add to one stream starts smaller by the root of their number") {
  const Graph graph = graph_over_positions("    - linear: {out: 4, residual_layers: 16}\n    - linear: {out: 4}\n");
  std::vector<double> scales;
  for (const Parameter& parameter : graph.parameters) scales.push_back(parameter.scale);
  CHECK(std::vector<double>(scales.begin(), scales.begin() + 4) == std::vector<double>{0.25, 1, 1, 1});
}

TEST_CASE("attention takes how rotary positions are stretched, with Llama 3.1's values where they are not given") {
  const auto stretch_of = [](const std::string& keys) {
    const Graph graph = graph_over_positions("    - attention: {heads: 2, rotary_base: 100" + keys + "}\n");
    return attributes_of<AttentionAttributes>(first_node(graph, OpKind::attention).op).rotary_stretch;
  };
  CHECK(stretch_of("") == RotaryStretch{});
  CHECK(stretch_of(", rotary_factor: 8") == RotaryStretch{8, 1, 4, 8192});
  CHECK(stretch_of(", rotary_factor: 2.5, rotary_low_freq_factor: 0.5, rotary_high_freq_factor: 3, "
                   "rotary_original_length: 20") == RotaryStretch{2.5, 0.5, 3, 20});
  const auto refused = [&](const std::string& layer) {
    CHECK_THROWS_AS(graph_over_positions("    - attention: {heads: 2, " + layer + "}\n"), ConfigError);
  };
  refused("rotary_factor: 8");
  refused("rotary_base: 100, rotary_original_length: 20");
  refused("rotary_base: 100, rotary_factor: 8, rotary_low_freq_factor: 4");
  refused("rotary_base: 100, rotary_factor: 0.5");
}

TEST_CASE("attention refuses what does not make heads, and says where") {
  const auto message = [](const std::string& layers) -> std::string {
    try {
      graph_over_positions(layers);
    } catch (const Error& error) {
      return error.what();
    }
    return "built";
  };
  CHECK_THAT(
      message("    - attention: {heads: 3}\n"),
      Contains("test.yaml:4") && Contains("the 24 features of attention's input are not 3 heads of queries, 3 of "
                                          "keys and 3 of values of one width: no multiple of 9"));
  CHECK_THAT(message("    - attention: {heads: 6, kv_heads: 3, rotary_base: 10000}\n    - linear: {out: 9}\n"
                     "    - attention: {heads: 1, rotary_base: 10000}\n"),
             Contains("rotary positions take heads of an even number of features; these have 3"));
  CHECK_THAT(message("    - linear: {out: 771}\n    - attention: {heads: 1}\n"),
             Contains("attention takes heads of up to 256 features; these have 257"));
  CHECK_THAT(message("    - flatten\n    - attention: {heads: 1}\n"),
             Contains("attention takes (batch, positions, features) or images; its input is 2×144"));
  CHECK_THAT(message("    - linear: {out: 8, name: q}\n    - linear: {out: 6, from: in, name: k}\n"
                     "    - attention: {heads: 2, from: [q, k, in]}\n"),
             Contains("attention's keys need 8 features, 2 heads of 4 as the queries', and have 6"));
  CHECK_THAT(message("    - linear: {out: 8, name: q}\n    - linear: {out: 8, from: in, name: k}\n"
                     "    - attention: {heads: 2, from: [q, k, in]}\n"),
             Contains("attention's keys are 2×6×8 and its values 2×6×24; they must be alike"));
}

TEST_CASE("every trainable parameter gets exactly one gradient of its own type") {
  const Experiment experiment = experiment_of(
      "    - conv2d: {out: 3, kernel: 3, padding: 1}\n"
      "    - residual: {layers: [{conv2d: {out: 3, kernel: 3, padding: 1}}, batchnorm2d, gelu]}\n"
      "    - global_avgpool\n    - linear: {out: 10}\n");
  Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  differentiate(graph);
  for (std::size_t p = 0; p < graph.parameters.size(); ++p) {
    const ValueId gradient = graph.parameter_gradients[p];
    if (!graph.parameters[p].trainable) {
      CHECK(gradient == -1);
      continue;
    }
    REQUIRE(gradient >= 0);
    CHECK(graph.values[gradient].type == graph.parameters[p].type);
    CHECK(graph.values[gradient].category == Category::gradient);
  }
  // The residual's input feeds two ways: their gradients are summed once, besides the forward addition.
  CHECK(count(graph, OpKind::add) == 2);
}

TEST_CASE("the first layer computes no gradient of the data") {
  const Experiment experiment = experiment_of("    - flatten\n    - linear: {out: 5}\n    - linear: {out: 10}\n");
  Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  differentiate(graph);
  CHECK(count(graph, OpKind::linear_backward_weight) == 2);
  CHECK(count(graph, OpKind::linear_backward_input) == 1);
  CHECK(count(graph, OpKind::flatten_backward) == 0);
}

TEST_CASE("evaluation has no dropout, no saved indices, and norms by running statistics") {
  const Experiment experiment = experiment_of(
      "    - conv2d: {out: 4, kernel: 3}\n    - batchnorm2d\n    - maxpool2d: {kernel: 2}\n    - flatten\n"
      "    - dropout: {p: 0.5}\n    - linear: {out: 10}\n");
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const Graph training = build_graph(experiment, data, 2, GraphMode::training);
  const Graph evaluation = build_graph(experiment, data, 2, GraphMode::evaluation);
  CHECK(count(training, OpKind::dropout) == 1);
  CHECK(count(evaluation, OpKind::dropout) == 0);
  CHECK(count(evaluation, OpKind::batchnorm2d) == 0);
  CHECK(count(evaluation, OpKind::batchnorm2d_inference) == 1);
  for (const GraphNode& node : evaluation.nodes) CHECK(node.outputs.size() <= 1);
  CHECK(parameter_names(training) == parameter_names(evaluation));
}

TEST_CASE("a shape mistake names the layer, the shapes and the line") {
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const Experiment flat = experiment_of("    - flatten\n    - conv2d: {out: 10, kernel: 3}\n");
  CHECK_THROWS_WITH(build_graph(flat, data, 2, GraphMode::training),
                    Contains("test.yaml:5:") && Contains("layer '1'") && Contains("2×192"));
  const Experiment residual = experiment_of(
      "    - relu\n    - residual: {layers: [{conv2d: {out: 4, kernel: 3}}]}\n    - flatten\n    - linear: {out: "
      "10}\n");
  CHECK_THROWS_WITH(build_graph(residual, data, 2, GraphMode::training),
                    Contains("test.yaml:5:") && Contains("2×6×6×4") && Contains("2×8×8×3"));
  const Experiment classes = experiment_of("    - flatten\n    - linear: {out: 9}\n");
  CHECK_THROWS_WITH(build_graph(classes, data, 2, GraphMode::training),
                    Contains("test.yaml:5:") && Contains("10 classes"));
}

TEST_CASE(
    "a wrong number of outputs for a table with more classes than half of its rows, or one output, names "
    "data.target_type") {
  Experiment experiment = experiment_of("    - linear: {out: 2}\n");
  const auto mistake = [&](std::int64_t num_classes) -> std::string {
    DataDescription data = described_data({4}, num_classes, 600);
    data.num_held = 600;
    try {
      build_graph(experiment, data, 2, GraphMode::training);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  experiment.data.type = DataType::csv;
  CHECK_THAT(mistake(599), Contains("599 classes") &&
                               Contains("599 outputs; or data.target_type: numeric where targets are numbers"));
  CHECK_THAT(mistake(300), Contains("300 classes") && !Contains("data.target_type"));
  experiment = experiment_of("    - linear: {out: 1}\n");
  experiment.data.type = DataType::csv;
  CHECK_THAT(mistake(7), Contains("7 outputs; or data.target_type: numeric where targets are numbers"));
  experiment.data.type = DataType::synthetic;
  CHECK_THAT(mistake(599), Contains("599 classes") && !Contains("data.target_type"));
}

TEST_CASE("what no machine holds is refused at the layer that makes it, and nothing overflows on the way") {
  const auto refusal = [](const std::string& layers, std::int64_t batch_size = 64) -> std::string {
    try {
      build_graph(experiment_of(layers), described_data({8, 8, 3}, 10, 64), batch_size, GraphMode::training);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "it was built";
  };
  CHECK_THAT(refusal("    - relu\n    - conv2d: {out: 2147483647, kernel: 2147483647, padding: 2147483647}\n"),
             Contains("test.yaml:5:7: error: layer '1': a tensor of shape 2147483647×2147483647×2147483647×3 has more "
                      "elements than any machine holds"));
  CHECK_THAT(refusal("    - conv2d: {out: 1, kernel: 1, padding: 2147483647}\n"),
             Contains("test.yaml:4:7: error: layer '0'") && Contains("more elements than any machine holds"));
  CHECK_THAT(refusal("    - conv2d: {out: 4, kernel: 3, dilation: 2147483647}\n"), Contains("test.yaml:4:7"));
  CHECK_THAT(refusal("    - conv2d: {out: 2147483647, kernel: 1}\n    - linear: {out: 2147483647}\n"),
             Contains("test.yaml:5:7: error: layer '1'"));
  CHECK_THAT(refusal("    - avgpool2d: {kernel: 2147483647, padding: 1073741823}\n"), Contains("test.yaml:4:7"));
  // Each layer alone would do.
  CHECK_THAT(refusal("    - repeat: {times: 4000, layers: [{conv2d: {out: 1048576, kernel: 1}}]}\n", 4096),
             Contains("test.yaml:4:") && Contains("up to here have more elements than any machine holds"));
  CHECK_THAT(refusal("    - relu\n", std::int64_t{1} << 60),
             Contains("test.yaml:1:1: error: a batch of 1152921504606846976 samples"));
}

TEST_CASE("layer totals match PyTorch's count for a small network") {
  // torch: Conv2d(3,4,3) 112 parameters, Linear(144,10) 1450.
  const Experiment experiment =
      experiment_of("    - conv2d: {out: 4, kernel: 3}\n    - flatten\n    - linear: {out: 10}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  std::int64_t total = 0;
  for (const Layer& layer : graph.layers) total += layer.num_parameters;
  CHECK(total == 112 + 1450);
}

TEST_CASE("linear takes the last dimension of images, its channels, and leaves height and width") {
  const Experiment experiment =
      experiment_of("    - linear: {out: 5}\n    - relu\n    - flatten\n    - linear: {out: 10}\n");
  const Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training);
  CHECK(graph.layers.at(1).output.shape == Shape{2, 8, 8, 5});
  CHECK(graph.parameters.at(0).type.shape == Shape{5, 3});
  CHECK(graph.parameters.at(2).type.shape == Shape{10, 320});
  // Where flatten was forgotten, the loss asks for it.
  CHECK_THROWS_WITH(build_graph(experiment_of("    - linear: {out: 10}\n"), described_data({8, 8, 3}, 10, 64), 2,
                                GraphMode::training),
                    Contains("test.yaml:4:") && Contains("2×8×8×10") && Contains("flatten"));
}

TEST_CASE("batch normalization over one value a channel is refused in training, with the layer's place") {
  const std::string layers = "    - batchnorm2d: {name: norm}\n    - flatten\n    - linear: {out: 10}\n";
  const Experiment experiment = experiment_of(layers);
  const DataDescription pixels = described_data({1, 1, 3}, 10, 64);
  CHECK_THROWS_WITH(
      build_graph(experiment, pixels, 1, GraphMode::training),
      Contains("test.yaml:4:7: error: layer 'norm'") && Contains("1×1×1×3") && Contains("one value a channel"));
  CHECK_NOTHROW(build_graph(experiment, pixels, 2, GraphMode::training));
  CHECK_NOTHROW(build_graph(experiment, pixels, 1, GraphMode::evaluation));
  CHECK_NOTHROW(build_graph(experiment, described_data({1, 2, 3}, 10, 64), 1, GraphMode::training));
  const Experiment of_features = experiment_of("    - batchnorm1d: {name: norm}\n    - linear: {out: 10}\n");
  const DataDescription features = described_data({3}, 10, 64);
  CHECK_THROWS_WITH(
      build_graph(of_features, features, 1, GraphMode::training),
      Contains("test.yaml:4:7: error: layer 'norm'") && Contains("1×3") && Contains("one value a channel"));
  CHECK_NOTHROW(build_graph(of_features, features, 2, GraphMode::training));
  CHECK_NOTHROW(build_graph(of_features, features, 1, GraphMode::evaluation));
}

TEST_CASE("batchnorm1d normalises the last dimension of features and of rows of them, batchnorm2d images") {
  const Experiment experiment =
      experiment_of("    - batchnorm1d: {name: norm}\n    - flatten\n    - linear: {out: 10}\n");
  for (const Shape& sample : {Shape{6}, Shape{5, 6}}) {
    const Graph graph = build_graph(experiment, described_data(sample, 10, 64), 2, GraphMode::training);
    CHECK(count(graph, OpKind::batchnorm2d) == 1);
    CHECK(parameter_names(graph) == std::vector<std::string>{"norm.running_mean", "norm.running_var", "norm.weight",
                                                             "norm.bias", "2.weight", "2.bias"});
    for (const Parameter& parameter : graph.parameters) {
      if (parameter.name.find("norm") != 0) continue;
      CHECK(parameter.type.shape == Shape{6});
      CHECK_FALSE(parameter.decays);
    }
  }
  CHECK_THROWS_WITH(build_graph(experiment, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training),
                    Contains("test.yaml:4:") && Contains("2×8×8×3") && Contains("batchnorm2d is for images"));
  CHECK_THROWS_WITH(build_graph(experiment_of("    - batchnorm2d\n    - linear: {out: 10}\n"),
                                described_data({6}, 10, 64), 2, GraphMode::training),
                    Contains("test.yaml:4:") && Contains("2×6") && Contains("batchnorm1d is for features"));
}

TEST_CASE("group norm learns a scale and a shift a channel, instance norm where it is told to, and neither decays") {
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const Graph graph =
      build_graph(experiment_of("    - conv2d: {out: 6, kernel: 3, bias: false}\n    - groupnorm: {groups: 3}\n"
                                "    - groupnorm: {groups: 2, affine: false}\n    - instancenorm2d\n"
                                "    - instancenorm2d: {affine: true}\n    - flatten\n    - groupnorm: {groups: 4}\n"
                                "    - linear: {out: 10, bias: false}\n"),
                  data, 2, GraphMode::training);
  CHECK(parameter_names(graph) == std::vector<std::string>{"0.weight", "1.weight", "1.bias", "4.weight", "4.bias",
                                                           "6.weight", "6.bias", "7.weight"});
  for (const Parameter& parameter : graph.parameters)
    CHECK(parameter.decays == (parameter.name == "0.weight" || parameter.name == "7.weight"));
  std::vector<Shape> statistics;
  for (const GraphNode& node : graph.nodes)
    if (node.op.kind == OpKind::groupnorm) statistics.push_back(node.op.outputs[1].shape);
  CHECK(statistics == std::vector<Shape>{{2, 3}, {2, 2}, {2, 6}, {2, 6}, {2, 4}});
}

TEST_CASE("groups that do not divide the channels, or hold one value in training, are refused at the layer's place") {
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const std::string end = "    - flatten\n    - linear: {out: 10}\n";
  CHECK_THROWS_WITH(
      build_graph(experiment_of("    - groupnorm: {groups: 2, name: norm}\n" + end), data, 2, GraphMode::training),
      Contains("test.yaml:4:7: error: layer 'norm'") && Contains("2 groups do not divide 3 channels"));
  const Experiment flat = experiment_of("    - flatten\n    - groupnorm: {groups: 192}\n    - linear: {out: 10}\n");
  CHECK_THROWS_WITH(build_graph(flat, data, 2, GraphMode::training),
                    Contains("test.yaml:5:7:") && Contains("2×192") && Contains("one value a group"));
  CHECK_NOTHROW(build_graph(flat, data, 2, GraphMode::evaluation));
  const Experiment instance = experiment_of("    - instancenorm2d\n" + end);
  CHECK_THROWS_WITH(build_graph(instance, described_data({1, 1, 3}, 10, 64), 2, GraphMode::training),
                    Contains("one value a group") && Contains("in channels"));
  CHECK_THROWS_WITH(build_graph(instance, described_data({6}, 10, 64), 2, GraphMode::training),
                    Contains("instancenorm2d takes images") && Contains("2×6"));
}

TEST_CASE("a class for each pixel wants a logit for each class there, and evaluations count them") {
  DataDescription data = described_data({8, 8, 3}, 4, 64);
  data.target = {DType::i32, Shape{8, 8}};
  data.num_validation = 8;
  const std::string layers = "    - conv2d: {out: 4, kernel: 3, padding: 1}\n";
  const Graph training = build_graph(experiment_of(layers), data, 2, GraphMode::training);
  CHECK(training.values[training.prediction].type.shape == Shape{2, 8, 8, 4});
  CHECK(count(training, OpKind::confusion_matrix) == 0);
  CHECK(training.metric_counts >= 0);
  const Graph evaluation = build_graph(experiment_of(layers), data, 2, GraphMode::evaluation);
  CHECK(count(evaluation, OpKind::confusion_matrix) == 1);
  CHECK(evaluation.values[evaluation.metric_counts].type == TensorType{DType::i64, Shape{4, 4}});
  data.num_validation = 0;
  CHECK(build_graph(experiment_of(layers), data, 2, GraphMode::evaluation).metric_counts == -1);

  CHECK_THROWS_WITH(
      build_graph(experiment_of("    - conv2d: {out: 5, kernel: 1}\n"), data, 2, GraphMode::training),
      Contains("the model's output is 2×8×8×5 and the data has 4 classes") && Contains("a last layer with 4 outputs"));
  CHECK_THROWS_WITH(
      build_graph(experiment_of("    - conv2d: {out: 4, kernel: 3}\n"), data, 2, GraphMode::training),
      Contains("for targets of 2×8×8, one logit a class for each of them; the model's output is 2×6×6×4"));
  CHECK_THROWS_WITH(
      build_graph(experiment_of("    - conv2d: {out: 4, kernel: 3}\n", "dice"), data, 2, GraphMode::training),
      Contains("dice takes, for classes of 2×8×8, one logit a class for each of them"));
  // Of two classes one logit may do.
  data.num_outputs = 2;
  const std::string one = "    - conv2d: {out: 1, kernel: 1}\n";
  CHECK_NOTHROW(build_graph(experiment_of(one, "dice"), data, 2, GraphMode::training));
  CHECK_THROWS_AS(build_graph(experiment_of(one), data, 2, GraphMode::training), ConfigError);
  data.num_outputs = 1;
  CHECK_THROWS_WITH(build_graph(experiment_of(one, "dice"), data, 2, GraphMode::training),
                    Contains("dice of one class has nothing to learn"));
}

TEST_CASE("the terms of a loss read one prediction, whose gradient is the sum of theirs") {
  DataDescription data = described_data({8, 8, 3}, 4, 64);
  data.target = {DType::i32, Shape{8, 8}};
  Graph graph = build_graph(
      experiment_of("    - conv2d: {out: 4, kernel: 3, padding: 1}\n",
                    "[cross_entropy, {type: dice, weight: 0.5}, {type: cross_entropy, label_smoothing: 0.1}]"),
      data, 2, GraphMode::training);
  CHECK(graph.values[graph.loss_statistics].type == loss_statistics_type(3));
  CHECK(graph.layers.back().path == "loss.2");
  differentiate(graph);
  CHECK(count(graph, OpKind::add) == 2);
  CHECK(count(graph, OpKind::dice_backward) == 1);
}

TEST_CASE("numbers for each pixel are held against an image") {
  Experiment experiment = experiment_of("    - conv2d: {out: 2, kernel: 3, padding: 1}\n", "l1");
  DataDescription data = described_data({8, 8, 3}, 128, 64);
  data.target = {DType::f32, Shape{8, 8, 2}};
  data.num_validation = 8;
  const Graph graph = build_graph(experiment, data, 2, GraphMode::evaluation);
  CHECK(count(graph, OpKind::smooth_l1) == 1);
  CHECK(count(graph, OpKind::error_statistics) == 1);
  data.target.shape = {8, 8, 3};
  CHECK_THROWS_WITH(build_graph(experiment, data, 2, GraphMode::training),
                    Contains("the model's output is 2×8×8×2 and the targets are 2×8×8×3; l1 needs them alike"));
}

TEST_CASE("a loss of numbers over classes is refused at the loss, with the target_type that makes them numbers") {
  const std::string layers = "    - flatten\n    - linear: {out: 10}\n";
  for (const std::string loss : {"bce_with_logits", "mse"}) {
    INFO(loss);
    CHECK_THROWS_WITH(
        build_graph(experiment_of(layers, loss), described_data({8, 8, 3}, 10, 64), 2, GraphMode::training),
        Contains("test.yaml:6:1: error: " + loss) && Contains("data.target_type: numeric"));
    Experiment digits = experiment_of(layers, loss);
    digits.data.type = DataType::digits;  // classes only
    CHECK_THROWS_WITH(build_graph(digits, described_data({8, 8, 3}, 10, 64), 2, GraphMode::training),
                      Contains("loss: cross_entropy") && !Contains("target_type"));
  }
}

TEST_CASE("a residual whose layers change nothing in evaluation still adds its input") {
  const Experiment experiment =
      experiment_of("    - residual: {layers: [dropout: {p: 0.5}]}\n    - flatten\n    - linear: {out: 10}\n");
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  for (const GraphMode mode : {GraphMode::training, GraphMode::evaluation}) {
    const Graph graph = build_graph(experiment, data, 2, mode);
    CHECK(count(graph, OpKind::add) == 1);
  }
}
