#include "engine/program/linear_fusion.h"

#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Below this a mask row, padded to 128 bits, is more than 1/16 of the activation's.
constexpr std::int64_t min_masked_outputs = 64;
constexpr std::int64_t gelu_multiple = 8;

bool is_gelu_tanh(const ActivationAttributes& attributes) {
  return attributes.function == Activation::gelu && attributes.approximate == GeluApproximation::tanh;
}

class LinearFusion {
 public:
  LinearFusion(Graph& graph, LinearFusions fusions) : graph_(graph), fusions_(fusions) {}

  void run() {
    find_uses();
    // Forward nodes first: where GELU moves into its layer, the gradients after it find the layer as what made both.
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (fusions_.gelu && graph_.nodes[n].op.kind == OpKind::activation) fuse_gelu(n);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (graph_.nodes[n].op.kind == OpKind::activation_backward) fuse_gradient(n);
    std::vector<GraphNode> kept;
    kept.reserve(graph_.nodes.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (!removed_[n]) kept.push_back(std::move(graph_.nodes[n]));
    graph_.nodes = std::move(kept);
  }

 private:
  void find_uses() {
    removed_.assign(graph_.nodes.size(), false);
    num_uses_.assign(graph_.values.size(), 0);
    producer_.assign(graph_.values.size(), -1);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (ValueId input : graph_.nodes[n].inputs) ++num_uses_[input];
      for (ValueId output : graph_.nodes[n].outputs) producer_[output] = static_cast<std::int32_t>(n);
    }
    for (const Value& value : graph_.values)
      if (value.view_of >= 0) ++num_uses_[value.view_of];
    if (graph_.prediction >= 0) ++num_uses_[graph_.prediction];
  }

  /// The linear op whose first output `value` is; null for all else.
  GraphNode* linear_of(ValueId value) {
    if (producer_[value] < 0) return nullptr;
    GraphNode& node = graph_.nodes[producer_[value]];
    return node.op.kind == OpKind::linear && node.outputs[0] == value ? &node : nullptr;
  }

  /// A layer's GELU into the layer, where the gradient keeps the sums alive anyhow.
  void fuse_gelu(std::size_t n) {
    const GraphNode& activation = graph_.nodes[n];
    if (!is_gelu_tanh(attributes_of<ActivationAttributes>(activation.op))) return;
    const ValueId sums = activation.inputs[0];
    GraphNode* const layer = linear_of(sums);
    // Two uses: this node and its gradient.
    if (layer == nullptr || num_uses_[sums] != 2 || !has_gradient_reading(sums)) return;
    LinearAttributes attributes = attributes_of<LinearAttributes>(layer->op);
    if (attributes.relu || attributes.gelu || attributes.out % gelu_multiple != 0) return;
    attributes.gelu = true;
    attributes.keeps = true;
    layer->op = linear_op(layer->op.inputs[0], attributes);
    layer->outputs = {activation.outputs[0], sums};
    producer_[activation.outputs[0]] = producer_[sums];
    removed_[n] = true;
  }

  bool has_gradient_reading(ValueId sums) const {
    for (const GraphNode& node : graph_.nodes)
      if (node.op.kind == OpKind::activation_backward && node.inputs[1] == sums) return true;
    return false;
  }

  void fuse_gradient(std::size_t n) {
    const GraphNode& backward = graph_.nodes[n];
    const auto& activation = attributes_of<ActivationAttributes>(backward.op);
    const ValueId gradient = backward.inputs[0];
    const ValueId read = backward.inputs[1];
    if (num_uses_[gradient] != 1 || producer_[gradient] < 0 || producer_[read] < 0) return;
    GraphNode& product = graph_.nodes[producer_[gradient]];
    if (product.op.kind != OpKind::linear_backward_input) return;
    const auto& attributes = attributes_of<LinearAttributes>(product.op);
    if (attributes.out == 1 || attributes.through != InputActivation::none) return;
    GraphNode& before = graph_.nodes[producer_[read]];
    if (before.op.kind != OpKind::linear) return;
    if (activation.function == Activation::relu) {
      if (!fusions_.relu_gradients || before.outputs[0] != read || !keep_mask(before)) return;
    } else if (!is_gelu_tanh(activation) || before.outputs.size() != 2 || before.outputs[1] != read) {
      return;
    }
    const Op linear = linear_op(product.op.outputs[0], {.out = attributes.out, .bias = attributes.bias});
    product.op = linear_backward_input_op(linear, before.op);
    product.inputs.push_back(before.outputs[1]);
    product.outputs[0] = backward.outputs[0];
    producer_[backward.outputs[0]] = producer_[gradient];
    removed_[n] = true;
  }

  /// Lets a layer with ReLU keep its mask; false where that does not pay.
  bool keep_mask(GraphNode& layer) {
    LinearAttributes attributes = attributes_of<LinearAttributes>(layer.op);
    if (!attributes.relu || attributes.out < min_masked_outputs) return false;
    if (attributes.keeps) return true;
    attributes.keeps = true;
    layer.op = linear_op(layer.op.inputs[0], attributes);
    Value mask;
    mask.type = layer.op.outputs[1];
    mask.role = "output.mask";
    mask.category = Category::activation;
    mask.layer = layer.layer;
    graph_.values.push_back(std::move(mask));
    layer.outputs.push_back(static_cast<ValueId>(graph_.values.size() - 1));
    return true;
  }

  Graph& graph_;
  LinearFusions fusions_;
  std::vector<bool> removed_;           // by node
  std::vector<int> num_uses_;           // by value, views among them
  std::vector<std::int32_t> producer_;  // by value: the node, or -1
};

}  // namespace

void fuse_linear_gradients(Graph& graph, LinearFusions fusions) {
  if (!fusions.relu_gradients && !fusions.gelu) return;
  LinearFusion(graph, fusions).run();
}

}  // namespace trainer
