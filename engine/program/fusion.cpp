#include "engine/program/fusion.h"

#include <algorithm>

namespace trainer {

void fuse_loss_gradient(Graph& graph) {
  for (std::size_t n = 0; n < graph.nodes.size();) {
    const GraphNode& loss = graph.nodes[n];
    const auto gradient = loss.op.kind != OpKind::cross_entropy
                              ? graph.nodes.end()
                              : std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
                                  return node.op.kind == OpKind::cross_entropy_backward &&
                                         node.op == cross_entropy_backward_op(loss.op) &&
                                         std::equal(node.inputs.begin(), node.inputs.begin() + 2, loss.inputs.begin());
                                });
    if (gradient == graph.nodes.end()) {
      ++n;
      continue;
    }
    gradient->op = cross_entropy_with_gradient_op(loss.op);
    gradient->inputs = loss.inputs;
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

}  // namespace trainer
