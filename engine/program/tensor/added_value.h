#pragma once

#include <string>
#include <utility>

#include "engine/graph/graph.h"

namespace trainer {

/// A further activation of a forward pass, which a layer makes when ranks share it.
inline ValueId add_activation(Graph& graph, const TensorType& type, std::string role, LayerId layer) {
  Value value;
  value.type = type;
  value.role = std::move(role);
  value.layer = layer;
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

}  // namespace trainer
