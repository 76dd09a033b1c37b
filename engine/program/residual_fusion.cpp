#include "engine/program/residual_fusion.h"

#include <optional>
#include <utility>
#include <vector>

#include "engine/program/value_uses.h"

namespace trainer {
namespace {

bool is_forward_batchnorm(const Op& op) {
  return op.kind == OpKind::batchnorm2d || op.kind == OpKind::batchnorm2d_normalize ||
         op.kind == OpKind::batchnorm2d_inference;
}

bool is_sum(const GraphNode& node) {
  return node.op.kind == OpKind::add && !attributes_of<AddAttributes>(node.op).relu;
}

bool stops_gradient_by_relu(const Op& op) {
  return op.kind == OpKind::activation_backward && attributes_of<ActivationAttributes>(op).function == Activation::relu;
}

class ResidualFusion {
 public:
  explicit ResidualFusion(Graph& graph, bool in_place = false)
      : graph_(graph), in_place_(in_place), uses_(graph), last_use_(graph.values.size(), -1) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const ValueId input : graph.nodes[n].inputs) last_use_[root(input)] = static_cast<std::int64_t>(n);
  }

  /// Makes of two nodes, one behind the other, one, or nothing.
  using Fuse = std::optional<GraphNode> (ResidualFusion::*)(std::size_t) const;

  void run(Fuse fuse) {
    std::vector<GraphNode> kept;
    kept.reserve(graph_.nodes.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      std::optional<GraphNode> fused;
      if (n + 1 < graph_.nodes.size() && graph_.nodes[n].phase == graph_.nodes[n + 1].phase) fused = (this->*fuse)(n);
      const bool takes_next = fused.has_value();
      kept.push_back(takes_next ? *std::move(fused) : std::move(graph_.nodes[n]));
      if (takes_next) ++n;
    }
    graph_.nodes = std::move(kept);
  }

  std::optional<GraphNode> fuse_sum_into_batchnorm(std::size_t n) const {
    const GraphNode &norm = graph_.nodes[n], &sum = graph_.nodes[n + 1];
    if (!is_forward_batchnorm(norm.op) || sum.op.kind != OpKind::add) return std::nullopt;
    const std::optional<ValueId> addend = other_term(sum, norm.outputs[0]);
    if (!addend || attributes_of<BatchNorm2dAttributes>(norm.op).relu) return std::nullopt;
    GraphNode fused = norm;
    fused.op = batchnorm2d_adding_op(norm.op, attributes_of<AddAttributes>(sum.op).relu);
    fused.inputs.push_back(*addend);
    fused.outputs[0] = sum.outputs[0];
    fused.layer = sum.layer;
    return fused;
  }

  std::optional<GraphNode> fuse_others(std::size_t n) const {
    const GraphNode &first = graph_.nodes[n], &second = graph_.nodes[n + 1];
    if (stops_gradient_by_relu(first.op) && second.op.kind == OpKind::batchnorm2d_backward)
      return gradient_of_batchnorm(first, second);
    if (is_sum(first) && second.op.kind == OpKind::layernorm) return layernorm_of_sum(n, first, second);
    if (first.op.kind == OpKind::layernorm_backward && is_sum(second)) return sum_of_gradients(first, second);
    return std::nullopt;
  }

 private:
  /// The gradient of the shortcut is stored over that of the block, and the batch norm's over the block's output.
  std::optional<GraphNode> gradient_of_batchnorm(const GraphNode& relu, const GraphNode& norm) const {
    BatchNorm2dAttributes attributes = attributes_of<BatchNorm2dAttributes>(norm.op);
    const ValueId gradient = relu.outputs[0];
    const bool has_shortcut = uses_.num_uses[gradient] > 1;
    if (!in_place_ || !has_shortcut || attributes.relu || norm.inputs[0] != gradient) return std::nullopt;
    attributes.relu = attributes.adds = true;
    GraphNode fused = norm;
    fused.op = batchnorm2d_backward_op(batchnorm2d_op(norm.op.inputs[1], attributes));
    fused.inputs[0] = relu.inputs[0];
    fused.inputs.push_back(relu.inputs[1]);
    fused.outputs.push_back(gradient);
    return fused;
  }

  std::optional<GraphNode> layernorm_of_sum(std::size_t n, const GraphNode& sum, const GraphNode& norm) const {
    const bool goes_on = uses_.num_uses[sum.outputs[0]] > 1;
    if (!in_place_ || !goes_on || norm.inputs[0] != sum.outputs[0]) return std::nullopt;
    if (root(sum.inputs[0]) == root(sum.inputs[1])) return std::nullopt;
    for (const ValueId term : sum.inputs)
      if (last_use_[root(term)] == static_cast<std::int64_t>(n) && !may_be_written_over(term)) return std::nullopt;
    GraphNode fused = norm;
    fused.op = layernorm_adding_op(norm.op);
    fused.inputs[0] = sum.inputs[0];
    fused.inputs.push_back(sum.inputs[1]);
    fused.outputs.push_back(sum.outputs[0]);
    return fused;
  }

  std::optional<GraphNode> sum_of_gradients(const GraphNode& norm, const GraphNode& sum) const {
    const std::optional<ValueId> gradient = other_term(sum, norm.outputs[0]);
    if (!gradient || root(*gradient) == root(norm.inputs[0])) return std::nullopt;
    GraphNode fused = norm;
    fused.op = layernorm_adding_backward_op(norm.op);
    fused.inputs.push_back(*gradient);
    fused.outputs[0] = sum.outputs[0];
    return fused;
  }

  /// What `sum` adds to `term`, where nothing else reads that.
  std::optional<ValueId> other_term(const GraphNode& sum, ValueId term) const {
    if (uses_.num_uses[term] != 1) return std::nullopt;
    if (sum.inputs[0] == term) return sum.inputs[1];
    if (sum.inputs[1] == term) return sum.inputs[0];
    return std::nullopt;
  }

  ValueId root(ValueId value) const {
    while (graph_.values[value].view_of >= 0) value = graph_.values[value].view_of;
    return value;
  }
  /// As the scheduler has it, see Note [Lifetimes] in engine/program/schedule.h.
  bool may_be_written_over(ValueId value) const { return graph_.values[root(value)].category != Category::input; }

  Graph& graph_;
  const bool in_place_;
  const ValueUses uses_;
  std::vector<std::int64_t> last_use_;  // by root value: the node; -1: none
};

}  // namespace

void fuse_sums_into_batchnorms(Graph& graph) { ResidualFusion(graph).run(&ResidualFusion::fuse_sum_into_batchnorm); }

void fuse_residuals(Graph& graph, bool in_place) { ResidualFusion(graph, in_place).run(&ResidualFusion::fuse_others); }

}  // namespace trainer
