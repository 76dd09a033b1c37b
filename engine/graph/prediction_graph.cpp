#include "engine/graph/prediction_graph.h"

#include <vector>

#include "engine/graph/graph_builder.h"
#include "engine/graph/model_inputs.h"

namespace trainer {

Graph build_prediction_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size) {
  Graph graph;
  graph.mode = GraphMode::evaluation;
  graph.batch_size = batch_size;
  GraphBuilder builder(graph, experiment.init, experiment.memory.workspace_limit);
  const std::vector<ValueId> inputs = add_model_inputs(builder, graph, experiment, data, /*has_targets=*/false);
  graph.prediction = build_layers(builder, experiment.layers, "", inputs.front());
  builder.check_outputs_are_read();
  graph.parameter_copies.assign(graph.parameters.size(), -1);
  graph.parameter_gradients.assign(graph.parameters.size(), -1);
  return graph;
}

}  // namespace trainer
