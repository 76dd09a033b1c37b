#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace trainer {

/// Who makes and who reads each value of a graph, as it is now.
struct ValueUses {
  /// By value: the nodes that read it, one entry for each operand, and one for each view of it and for the prediction.
  std::vector<int> num_uses;
  /// By value: the node that makes it; -1: it is given, or a view.
  std::vector<std::int32_t> producer;

  explicit ValueUses(const Graph& graph) : num_uses(graph.values.size(), 0), producer(graph.values.size(), -1) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const ValueId input : graph.nodes[n].inputs) ++num_uses[input];
      for (const ValueId output : graph.nodes[n].outputs) producer[output] = static_cast<std::int32_t>(n);
    }
    for (const Value& value : graph.values)
      if (value.view_of >= 0) ++num_uses[value.view_of];
    if (graph.prediction >= 0) ++num_uses[graph.prediction];
  }
};

}  // namespace trainer
