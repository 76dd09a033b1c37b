#include "engine/program/fusion.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainer {
namespace {

/// The switch to set in an op that can apply ReLU itself; null for all others.
bool* relu_switch(Op& op) {
  switch (op.kind) {
    case OpKind::linear:
      return &std::get<LinearAttributes>(op.attributes).relu;
    case OpKind::conv2d:
      return &std::get<Conv2dAttributes>(op.attributes).relu;
    case OpKind::batchnorm2d:
    case OpKind::batchnorm2d_inference:
      return &std::get<BatchNorm2dAttributes>(op.attributes).relu;
    case OpKind::add:
      return &std::get<AddAttributes>(op.attributes).relu;
    default:
      return nullptr;
  }
}

bool is_relu(const Op& op) {
  return op.kind == OpKind::activation && attributes_of<ActivationAttributes>(op).function == Activation::relu;
}

}  // namespace

void fuse_relu(Graph& graph) {
  std::vector<int> num_uses(graph.values.size(), 0);
  std::vector<std::int32_t> producer(graph.values.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId input : graph.nodes[n].inputs) ++num_uses[input];
    for (ValueId output : graph.nodes[n].outputs) producer[output] = static_cast<std::int32_t>(n);
  }
  for (const Value& value : graph.values)
    if (value.view_of >= 0) ++num_uses[value.view_of];

  std::vector<ValueId> renamed(graph.values.size());
  for (std::size_t v = 0; v < renamed.size(); ++v) renamed[v] = static_cast<ValueId>(v);

  std::vector<GraphNode> kept;
  kept.reserve(graph.nodes.size());
  std::vector<std::int32_t> place(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    GraphNode& node = graph.nodes[n];
    for (ValueId& input : node.inputs) input = renamed[input];
    if (is_relu(node.op) && num_uses[node.inputs[0]] == 1 && producer[node.inputs[0]] >= 0) {
      GraphNode& before = kept[place[producer[node.inputs[0]]]];
      bool* relu = relu_switch(before.op);
      if (relu != nullptr && !*relu && before.outputs[0] == node.inputs[0]) {
        *relu = true;
        renamed[node.outputs[0]] = node.inputs[0];
        num_uses[node.inputs[0]] = num_uses[node.outputs[0]];
        continue;
      }
    }
    place[n] = static_cast<std::int32_t>(kept.size());
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  for (Value& value : graph.values)
    if (value.view_of >= 0) value.view_of = renamed[value.view_of];
  graph.prediction = renamed[graph.prediction];
}

void fuse_loss_gradient(Graph& graph) {
  const auto is_kind = [](OpKind kind) { return [kind](const GraphNode& node) { return node.op.kind == kind; }; };
  const auto loss = std::find_if(graph.nodes.begin(), graph.nodes.end(), is_kind(OpKind::cross_entropy));
  const auto gradient = std::find_if(loss, graph.nodes.end(), is_kind(OpKind::cross_entropy_backward));
  if (gradient == graph.nodes.end() || gradient->op != cross_entropy_backward_op(loss->op) ||
      !std::equal(gradient->inputs.begin(), gradient->inputs.end(), loss->inputs.begin()))
    return;
  gradient->op = cross_entropy_with_gradient_op(loss->op);
  gradient->inputs = loss->inputs;
  graph.nodes.erase(loss);
}

}  // namespace trainer
