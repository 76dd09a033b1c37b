#include "engine/plan/model_flops.h"

#include "engine/graph/graph.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Of attention's five products backward one is that of the scores again, which no pass keeps.
constexpr double gradient_share_of_attention = 4.0 / 5.0;

}  // namespace

double model_flops_of_sample(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size) {
  Graph graph = build_graph(experiment, data, batch_size, GraphMode::training);
  differentiate(graph);
  double flops = 0;
  for (const GraphNode& node : graph.nodes) {
    const double share = node.op.kind == OpKind::attention_backward ? gradient_share_of_attention : 1;
    flops += share * static_cast<double>(definition_of(node.op.kind).flops(node.op));
  }
  return flops / static_cast<double>(batch_size);
}

}  // namespace trainer
