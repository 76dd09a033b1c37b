#include "engine/program/fusion.h"

#include <algorithm>

namespace trainer {

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
