#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace trainer {

/// A tensor that the forward pass makes and the backward pass reads.
struct KeptValue {
  std::int64_t num_bytes = 0;
  std::set<OpKind> readers;
};

/// All of them, by "<kind of layer> <role>"; several of one name are added up. A view counts as what it views.
inline std::map<std::string, KeptValue> kept_values(const Graph& graph) {
  const auto base_of = [&](ValueId value) {
    while (graph.values[value].view_of >= 0) value = graph.values[value].view_of;
    return value;
  };
  std::set<ValueId> made;
  std::map<ValueId, std::set<OpKind>> readers;
  for (const GraphNode& node : graph.nodes) {
    if (node.phase == Phase::forward) {
      made.insert(node.outputs.begin(), node.outputs.end());
    } else {
      for (const ValueId input : node.inputs) readers[base_of(input)].insert(node.op.kind);
    }
  }
  std::map<std::string, KeptValue> kept;
  for (const auto& [value, kinds] : readers) {
    if (!made.contains(value)) continue;
    const Value& info = graph.values[value];
    KeptValue& entry = kept[graph.layers[info.layer].kind + " " + info.role];
    entry.num_bytes += info.type.num_bytes();
    entry.readers.insert(kinds.begin(), kinds.end());
  }
  return kept;
}

inline std::int64_t kept_bytes(const Graph& graph) {
  std::int64_t num_bytes = 0;
  for (const auto& [name, kept] : kept_values(graph)) num_bytes += kept.num_bytes;
  return num_bytes;
}

}  // namespace trainer
