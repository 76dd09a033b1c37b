#include "engine/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/graph/graph_builder.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

TensorType batch_of(const TensorType& sample, std::int64_t batch_size) {
  std::vector<std::int64_t> dims = {batch_size};
  dims.insert(dims.end(), sample.shape.begin(), sample.shape.end());
  return {sample.dtype, Shape(dims)};
}

NormalizePixelsAttributes normalisation(const InputDescription& input) {
  NormalizePixelsAttributes attributes;
  for (std::size_t c = 0; c < input.mean.size(); ++c) {
    attributes.scale.push_back(1 / (255 * input.std[c]));
    attributes.offset.push_back(-input.mean[c] / input.std[c]);
  }
  return attributes;
}

/// Each input as layers take it: pixels normalised, all else as it is.
std::vector<ValueId> add_inputs(GraphBuilder& builder, Graph& graph, const DataDescription& data,
                                const SourceLocation& location) {
  require_internal(!data.inputs.empty(), "a model has an input");
  builder.begin_layer("input", std::string(name_of(data.inputs.front().type.dtype)), location, -1);
  try {
    for (const InputDescription& input : data.inputs)
      graph.inputs.push_back(builder.add_value(batch_of(input.type, graph.batch_size), input.name, Category::input));
    graph.targets = builder.add_value(batch_of(data.target, graph.batch_size), "targets", Category::input);
    std::vector<ValueId> values = graph.inputs;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (data.inputs[i].type.dtype == DType::u8)
        values[i] =
            builder.apply(normalize_pixels_op(builder.type(values[i]), normalisation(data.inputs[i])), {values[i]})[0];
    builder.end_layer(values.front());
    return values;
  } catch (const ShapeError& error) {
    throw located_error(location, fmt::format("a batch of {} samples: {}", graph.batch_size, error.what()));
  }
}

/// The last layer's place, where a wrong number of outputs is put right.
const SourceLocation& last_layer_location(const Experiment& experiment) {
  return experiment.layers.empty() ? experiment.loss.location : experiment.layers.back().location;
}

/// Whether the classes of a table are rather numbers to predict: more of them than half of its rows, or for a model
/// that gives one number.
bool may_be_meant_as_numbers(const Experiment& experiment, const DataDescription& data, std::int64_t num_predicted) {
  return experiment.data.type == DataType::csv && (data.num_outputs > data.num_held / 2 || num_predicted == 1);
}

Op loss_op(const Experiment& experiment, const DataDescription& data, const TensorType& prediction,
           const TensorType& targets) {
  if (data.categorical() && experiment.loss.type != LossType::cross_entropy) {
    const DataType type = experiment.data.type;
    const bool may_be_numeric = type == DataType::csv || type == DataType::synthetic;
    throw located_error(
        experiment.loss.location,
        fmt::format("{} needs numbers as targets; the data has classes", loss_choices().name_of(experiment.loss.type)),
        may_be_numeric ? "data.target_type: numeric, or loss: cross_entropy" : "loss: cross_entropy");
  }
  switch (experiment.loss.type) {
    case LossType::mse:
      return mse_op(prediction, targets);
    case LossType::bce_with_logits:
      return bce_with_logits_op(prediction, targets);
    case LossType::cross_entropy:
      break;
  }
  CrossEntropyAttributes attributes;
  attributes.label_smoothing = experiment.loss.label_smoothing;
  attributes.class_weights.assign(experiment.loss.class_weights.begin(), experiment.loss.class_weights.end());
  if (!attributes.class_weights.empty() &&
      static_cast<std::int64_t>(attributes.class_weights.size()) != data.num_outputs) {
    throw located_error(experiment.loss.location,
                        fmt::format("loss.class_weights has {} values for {} classes", attributes.class_weights.size(),
                                    data.num_outputs),
                        "one weight for each class");
  }
  Op op = cross_entropy_op(prediction, targets, attributes);
  if (prediction.shape[-1] != data.num_outputs) {
    throw located_error(last_layer_location(experiment),
                        fmt::format("the model's output is {} and the data has {} classes",
                                    prediction.shape.to_string(), data.num_outputs),
                        fmt::format("a last layer with {} outputs{}", data.num_outputs,
                                    may_be_meant_as_numbers(experiment, data, prediction.shape[-1])
                                        ? "; or data.target_type: numeric where targets are numbers, not classes"
                                        : ""));
  }
  return op;
}

void add_loss(GraphBuilder& builder, Graph& graph, const Experiment& experiment, const DataDescription& data) {
  builder.begin_layer("loss", loss_choices().name_of(experiment.loss.type), experiment.loss.location, graph.prediction);
  graph.loss_statistics = builder.add_value({DType::f64, {num_loss_statistics}}, "statistics", Category::temporary);
  try {
    Op op = loss_op(experiment, data, builder.type(graph.prediction), builder.type(graph.targets));
    builder.apply(std::move(op), {graph.prediction, graph.targets, graph.loss_statistics});
  } catch (const ShapeError& error) {
    throw located_error(last_layer_location(experiment), error.what());
  }
  builder.end_layer(-1);
}

void check_inputs_are_read(const Graph& graph, const std::vector<ValueId>& inputs, const DataDescription& data,
                           const SourceLocation& location) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_read = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId input) { return input == inputs[i] || graph.values[input].view_of == inputs[i]; });
    });
    if (!is_read)
      throw located_error(location, fmt::format("no layer reads the input '{}' of the data", data.inputs[i].name));
  }
}

}  // namespace

Graph build_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size, GraphMode mode) {
  Graph graph;
  graph.mode = mode;
  graph.batch_size = batch_size;
  GraphBuilder builder(graph, experiment.init, experiment.memory.workspace_limit);
  const std::vector<ValueId> inputs = add_inputs(builder, graph, data, experiment.data.location);
  builder.add_input("input", inputs.front());
  for (std::size_t i = 1; i < inputs.size(); ++i) builder.add_input(data.inputs[i].name, inputs[i]);
  graph.prediction = build_layers(builder, experiment.layers, "", inputs.front());
  add_loss(builder, graph, experiment, data);
  check_inputs_are_read(graph, inputs, data, experiment.data.location);
  builder.check_outputs_are_read();
  graph.parameter_copies.assign(graph.parameters.size(), -1);
  graph.parameter_gradients.assign(graph.parameters.size(), -1);
  return graph;
}

}  // namespace trainer
