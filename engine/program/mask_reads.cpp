#include "engine/program/mask_reads.h"

#include <utility>

#include "engine/program/value_uses.h"

namespace trainer {
namespace {

bool is_gradient_of_relu(const Op& op) {
  return op.kind == OpKind::activation_backward && attributes_of<ActivationAttributes>(op).function == Activation::relu;
}

bool is_gradient_of(const Op& backward, const Op& forward) {
  return (forward.kind == OpKind::dropout && backward == dropout_backward_op(forward)) ||
         (forward.kind == OpKind::flatten && backward == flatten_backward_op(forward));
}

}  // namespace

void read_masks_further_on(Graph& graph, bool enabled) {
  if (!enabled) return;
  ValueUses uses(graph);
  const auto producer_of = [&](ValueId value) {
    return uses.producer[value] < 0 ? nullptr : &graph.nodes[uses.producer[value]];
  };
  // A mask moves behind one op after another: forward nodes stand in the order in which it comes to them.
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& forward = graph.nodes[n];
    if (forward.op.kind != OpKind::dropout && forward.op.kind != OpKind::flatten) continue;
    const ValueId y = forward.inputs[0];
    const ValueId d = forward.outputs[0];
    if (uses.num_uses[y] != 2) continue;  // this node and the gradient of ReLU
    for (GraphNode& stopping : graph.nodes) {
      if (!is_gradient_of_relu(stopping.op) || stopping.inputs[1] != y) continue;
      const ValueId between = stopping.inputs[0];
      GraphNode* const before = producer_of(between);
      if (before == nullptr || uses.num_uses[between] != 1 || !is_gradient_of(before->op, forward.op)) break;
      // The two change places; the value between them is now the gradient of d, and named after who makes it.
      const ValueId after = stopping.outputs[0];
      stopping.op = activation_backward_op(graph.values[d].type, {.function = Activation::relu});
      stopping.inputs = {before->inputs[0], d};
      stopping.outputs = {between};
      before->inputs = {between};
      before->outputs = {after};
      std::swap(stopping, *before);
      graph.values[between].type = graph.values[d].type;
      std::swap(graph.values[between].role, graph.values[after].role);
      std::swap(graph.values[between].layer, graph.values[after].layer);
      --uses.num_uses[y];
      ++uses.num_uses[d];
      break;
    }
  }
}

}  // namespace trainer
