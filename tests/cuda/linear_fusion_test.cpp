#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/config/load_experiment.h"
#include "engine/cpu/cpu_device.h"
#include "engine/program/linear_fusion.h"
#include "engine/program/relu_fusion.h"
#include "tests/device/described_device.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

/// Runs every node of a graph on the CPU, each value in memory of its own; the same numbers for the same graph.
class GraphRun {
 public:
  explicit GraphRun(const Graph& graph) : graph_(graph), device_(make_cpu_device(2)) {
    for (const Value& value : graph.values) memory_.emplace_back(static_cast<std::size_t>(value.type.num_bytes()));
    for (std::size_t p = 0; p < graph.parameters.size(); ++p)
      fill(graph.parameter_values[p], random_values(graph.parameters[p].type, static_cast<int>(p), -0.3, 0.3));
    const TensorType& batch = graph.values[static_cast<std::size_t>(graph.inputs[0])].type;
    fill(graph.inputs[0], random_values(batch, 100, 0, batch.dtype == DType::u8 ? 255 : 1));
    fill(graph.targets, random_values(graph.values[static_cast<std::size_t>(graph.targets)].type, 101, 0, 9.9));
    device_->begin_pass({}, {});
    for (const GraphNode& node : graph.nodes) run(node);
  }

  Values gradient(std::size_t parameter) {
    const ValueId value = graph_.parameter_gradients[parameter];
    return to_values(graph_.values[static_cast<std::size_t>(value)].type, memory_of(value));
  }

 private:
  std::vector<std::byte>& memory_of(ValueId value) {
    while (graph_.values[static_cast<std::size_t>(value)].view_of >= 0)
      value = graph_.values[static_cast<std::size_t>(value)].view_of;
    return memory_[static_cast<std::size_t>(value)];
  }
  void fill(ValueId value, const Values& values) {
    memory_of(value) = to_bytes(graph_.values[static_cast<std::size_t>(value)].type, values);
  }
  void run(const GraphNode& node) {
    std::vector<void*> inputs, outputs;
    for (const ValueId input : node.inputs) inputs.push_back(memory_of(input).data());
    for (const ValueId output : node.outputs) outputs.push_back(memory_of(output).data());
    std::vector<std::byte> workspace(static_cast<std::size_t>(device_->workspace_bytes(node.op)) + 512);
    const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
    device_->prepare(node.op).run({inputs, outputs, workspace.data() + (512 - address % 512) % 512});
  }

  const Graph& graph_;
  std::unique_ptr<Device> device_;
  std::vector<std::vector<std::byte>> memory_;  // by value; a view's stays unused
};

Graph graph_of(const std::string& layers, LinearFusions fusions) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  layers: [" + layers + "]\n",
      "test.yaml");
  Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 7, GraphMode::training);
  fuse_relu(graph);
  differentiate(graph);
  fuse_linear_gradients(graph, fusions);
  return graph;
}

void check_same_gradients(const std::string& layers) {
  const Graph plain = graph_of(layers, {});
  const Graph fused = graph_of(layers, {.relu_gradients = true, .gelu = true});
  CHECK(fused.nodes.size() < plain.nodes.size());
  GraphRun of_plain(plain), of_fused(fused);
  for (std::size_t p = 0; p < plain.parameters.size(); ++p) {
    const Values expected = of_plain.gradient(p), computed = of_fused.gradient(p);
    INFO(plain.parameters[p].name);
    CHECK(std::any_of(expected.begin(), expected.end(), [](double value) { return std::fabs(value) > 1e-6; }));
    const bool same = computed == expected;
    CHECK(same);
  }
}

}  // namespace

TEST_CASE("fused gradients are those of the ops they replace, bit for bit but for the sign of zero") {
  check_same_gradients(
      "flatten, {linear: {out: 130}}, relu, {linear: {out: 64, bias: false}}, relu, {linear: {out: 10}}");
  check_same_gradients(
      "flatten, {linear: {out: 64}}, {gelu: {approximate: tanh}}, {linear: {out: 24, bias: false}}, "
      "{gelu: {approximate: tanh}}, {linear: {out: 10}}");
  check_same_gradients(
      "flatten, {linear: {out: 64}}, {gelu: {approximate: tanh}}, {linear: {out: 96}}, relu, {dropout: {p: 0.5}}, "
      "{linear: {out: 65}}, relu, {linear: {out: 10}}");
}

}  // namespace trainer
