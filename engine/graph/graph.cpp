#include "engine/graph/graph.h"

#include <fmt/format.h>

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

NormalizePixelsAttributes normalisation(const DataDescription& data) {
  NormalizePixelsAttributes attributes;
  for (std::size_t c = 0; c < data.mean.size(); ++c) {
    attributes.scale.push_back(1 / (255 * data.std[c]));
    attributes.offset.push_back(-data.mean[c] / data.std[c]);
  }
  return attributes;
}

/// The samples as the first layer takes them: features as they are, pixels normalised.
ValueId add_input(GraphBuilder& builder, Graph& graph, const DataDescription& data, const SourceLocation& location) {
  builder.begin_layer("input", std::string(name_of(data.sample.dtype)), location, -1);
  try {
    graph.batch = builder.add_value(batch_of(data.sample, graph.batch_size), "batch", Category::input);
    graph.targets = builder.add_value(batch_of(data.target(), graph.batch_size), "targets", Category::input);
    ValueId value = graph.batch;
    if (data.sample.dtype == DType::u8)
      value = builder.apply(normalize_pixels_op(builder.type(graph.batch), normalisation(data)), {graph.batch})[0];
    builder.end_layer(value);
    return value;
  } catch (const ShapeError& error) {
    throw located_error(location, fmt::format("a batch of {} samples: {}", graph.batch_size, error.what()));
  }
}

/// The last layer's place, where a wrong number of outputs is put right.
const SourceLocation& last_layer_location(const Experiment& experiment) {
  return experiment.layers.empty() ? experiment.loss.location : experiment.layers.back().location;
}

Op loss_op(const Experiment& experiment, const DataDescription& data, const TensorType& prediction,
           const TensorType& targets) {
  if (data.categorical && experiment.loss.type != LossType::cross_entropy) {
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
  if (prediction.shape[1] != data.num_outputs) {
    throw located_error(last_layer_location(experiment),
                        fmt::format("the model's output is {} and the data has {} classes",
                                    prediction.shape.to_string(), data.num_outputs),
                        fmt::format("a last layer with {} outputs", data.num_outputs));
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

}  // namespace

Graph build_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size, GraphMode mode) {
  Graph graph;
  graph.mode = mode;
  graph.batch_size = batch_size;
  GraphBuilder builder(graph, experiment.init, experiment.memory.workspace_limit);
  const ValueId input = add_input(builder, graph, data, experiment.data.location);
  graph.prediction = build_layers(builder, experiment.layers, "", input);
  add_loss(builder, graph, experiment, data);
  graph.parameter_copies.assign(graph.parameters.size(), -1);
  graph.parameter_gradients.assign(graph.parameters.size(), -1);
  return graph;
}

}  // namespace trainer
