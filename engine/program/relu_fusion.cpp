#include "engine/program/relu_fusion.h"

#include <utility>
#include <vector>

#include "engine/program/value_uses.h"

namespace trainer {
namespace {

bool has_byte_to_spare(const Pool2dAttributes& attributes) {
  return attributes.kernel[0] * attributes.kernel[1] <= no_position;
}

/// The switch to set in an op that can apply ReLU itself; null for all others.
bool* relu_switch(Op& op) {
  switch (op.kind) {
    case OpKind::linear:
      return &std::get<LinearAttributes>(op.attributes).relu;
    case OpKind::conv2d:
      return &std::get<Conv2dAttributes>(op.attributes).relu;
    case OpKind::batchnorm2d:
    case OpKind::batchnorm2d_normalize:
    case OpKind::batchnorm2d_inference:
      return &std::get<BatchNorm2dAttributes>(op.attributes).relu;
    case OpKind::groupnorm:
      return &std::get<GroupNormAttributes>(op.attributes).relu;
    case OpKind::add:
      return &std::get<AddAttributes>(op.attributes).relu;
    case OpKind::maxpool2d: {
      auto& attributes = std::get<Pool2dAttributes>(op.attributes);
      return has_byte_to_spare(attributes) ? &attributes.relu : nullptr;
    }
    default:
      return nullptr;
  }
}

/// The same for ReLU6.
bool* cap_switch(Op& op) {
  const bool is_norm = op.kind == OpKind::batchnorm2d || op.kind == OpKind::batchnorm2d_normalize ||
                       op.kind == OpKind::batchnorm2d_inference;
  if (!is_norm) return nullptr;
  auto& attributes = std::get<BatchNorm2dAttributes>(op.attributes);
  return attributes.adds ? nullptr : &attributes.capped;
}

bool is_relu6(const Op& op) {
  return op.kind == OpKind::activation && attributes_of<ActivationAttributes>(op).function == Activation::relu6;
}

bool is_relu(const Op& op) {
  return op.kind == OpKind::activation && attributes_of<ActivationAttributes>(op).function == Activation::relu;
}

}  // namespace

void fuse_relu_into_pooling(Graph& graph, bool enabled) {
  if (!enabled) return;
  const ValueUses uses(graph);
  std::vector<bool> removed(graph.nodes.size(), false);
  for (GraphNode& pooling : graph.nodes) {
    if (pooling.op.kind != OpKind::maxpool2d) continue;
    const ValueId y = pooling.inputs[0];
    if (uses.producer[y] < 0 || uses.num_uses[y] != 1) continue;
    const GraphNode& relu = graph.nodes[uses.producer[y]];
    bool* const fused = relu_switch(pooling.op);
    if (!is_relu(relu.op) || fused == nullptr) continue;
    *fused = true;
    pooling.inputs[0] = relu.inputs[0];
    removed[uses.producer[y]] = true;
  }
  std::vector<GraphNode> kept;
  kept.reserve(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (!removed[n]) kept.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(kept);
}

void fuse_relu(Graph& graph) {
  auto [num_uses, producer] = ValueUses(graph);
  std::vector<ValueId> renamed(graph.values.size());
  for (std::size_t v = 0; v < renamed.size(); ++v) renamed[v] = static_cast<ValueId>(v);

  std::vector<GraphNode> kept;
  kept.reserve(graph.nodes.size());
  std::vector<std::int32_t> place(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    GraphNode& node = graph.nodes[n];
    for (ValueId& input : node.inputs) input = renamed[input];
    if ((is_relu(node.op) || is_relu6(node.op)) && num_uses[node.inputs[0]] == 1 && producer[node.inputs[0]] >= 0) {
      GraphNode& before = kept[place[producer[node.inputs[0]]]];
      bool* const relu = relu_switch(before.op);
      bool* const cap = is_relu6(node.op) ? cap_switch(before.op) : nullptr;
      // Its gradient reads no output: Note [Frozen networks] in engine/graph/frozen_network.h.
      const bool is_frozen_norm = graph.mode == GraphMode::training && before.op.kind == OpKind::batchnorm2d_inference;
      const bool takes_it = relu != nullptr && !is_frozen_norm && !*relu && (cap != nullptr || !is_relu6(node.op));
      if (takes_it && before.outputs[0] == node.inputs[0]) {
        *relu = true;
        if (cap != nullptr) *cap = true;
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

}  // namespace trainer
