#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "engine/graph/graph.h"

namespace trainer {

/// Every value is given or made before it is read, and made once, and operands have the types that their ops say.
inline void check_order(const Graph& graph) {
  std::vector<bool> made(graph.values.size(), false);
  for (std::size_t v = 0; v < made.size(); ++v) made[v] = graph.values[v].parameter >= 0;
  for (const ValueId field : graph.fields()) made[field] = true;
  for (const ValueId given : {graph.loss_statistics, graph.loss_scale})
    if (given >= 0) made[given] = true;
  const auto root_of = [&](ValueId value) {
    while (graph.values[value].view_of >= 0) value = graph.values[value].view_of;
    return value;
  };
  for (const GraphNode& node : graph.nodes) {
    REQUIRE(node.inputs.size() == node.op.inputs.size());
    REQUIRE(node.outputs.size() == node.op.outputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      CHECK(made[root_of(node.inputs[i])]);
      CHECK(graph.values[node.inputs[i]].type == node.op.inputs[i]);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      CHECK_FALSE(made[node.outputs[i]]);
      CHECK(graph.values[node.outputs[i]].type == node.op.outputs[i]);
      made[node.outputs[i]] = true;
    }
  }
}

}  // namespace trainer
