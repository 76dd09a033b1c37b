#pragma once

#include <vector>

#include "engine/graph/graph_builder.h"

namespace trainer {

/// Adds what comes from the data to a graph that has nothing yet: Graph::inputs, the targets where there is a loss, and
/// what mixes training batches. Returns each input as layers take it, pixels normalised and all else as it is, and has
/// the builder know them by their names, and the documents of tokens. Throws ConfigError where a batch is too large.
std::vector<ValueId> add_model_inputs(GraphBuilder& builder, Graph& graph, const Experiment& experiment,
                                      const DataDescription& data, bool has_targets);

}  // namespace trainer
