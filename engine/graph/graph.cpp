#include "engine/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/graph/frozen_network.h"
#include "engine/graph/graph_builder.h"
#include "engine/graph/metrics.h"
#include "engine/graph/model_inputs.h"
#include "engine/graph/trained_layers.h"
#include "engine/ops/mixed_sample.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// The last layer's place, where a wrong number of outputs is put right.
const SourceLocation& last_layer_location(const Experiment& experiment) {
  return experiment.layers.empty() ? experiment.loss_location : experiment.layers.back().location;
}

/// Whether the classes of a table are rather numbers to predict: more of them than half of its rows, or for a model
/// that gives one number.
bool may_be_meant_as_numbers(const Experiment& experiment, const DataDescription& data, std::int64_t num_predicted) {
  return experiment.data.type == DataType::csv && (data.num_outputs > data.num_held / 2 || num_predicted == 1);
}

CrossEntropyAttributes cross_entropy_attributes(const LossConfig& loss, const LossTerm& term) {
  CrossEntropyAttributes attributes;
  attributes.label_smoothing = loss.label_smoothing;
  attributes.ignore_index = loss.ignore_index;
  attributes.class_weights.assign(loss.class_weights.begin(), loss.class_weights.end());
  attributes.term = term;
  return attributes;
}

/// The ops of one loss, and what they are refused for.
class LossTranslation {
 public:
  LossTranslation(GraphBuilder& builder, Graph& graph, const Experiment& experiment, const DataDescription& data)
      : builder_(builder), graph_(graph), experiment_(experiment), data_(data) {}

  void add(const LossConfig& loss, const LossTerm& term) {
    const TensorType& prediction = builder_.type(graph_.prediction);
    const TensorType& targets = builder_.type(graph_.targets);
    switch (loss.type) {
      case LossType::mse:
        return apply(mse_op(prediction, targets, term));
      case LossType::l1:
        return apply(smooth_l1_op(prediction, targets, {.beta = 0, .term = term}));
      case LossType::smooth_l1:
        return apply(smooth_l1_op(prediction, targets, {.beta = loss.beta, .term = term}));
      case LossType::bce_with_logits:
        return apply(bce_with_logits_op(prediction, targets, term));
      case LossType::dice:
        return add_dice(loss, term);
      case LossType::feature:  // add_distances() does that
      case LossType::cross_entropy:
        break;
    }
    check_class_weights(loss);
    CrossEntropyAttributes attributes = cross_entropy_attributes(loss, term);
    attributes.mixed = graph_.mixing >= 0;
    Op op = cross_entropy_op(prediction, targets, attributes);
    check_num_outputs(false);
    apply(std::move(op));
  }

  /// Of a loss on features: what is compared, part by part.
  void add_distances(const FeatureConfig& feature, const ComparedFeatures& features, LossTerm term) {
    for (std::size_t i = 0; i < features.wanted.size(); ++i, ++term.index) {
      const TensorType &predicted = builder_.type(features.predicted[i]), &wanted = builder_.type(features.wanted[i]);
      Op op = feature.distance == FeatureDistance::mse ? mse_op(predicted, wanted, term)
                                                       : smooth_l1_op(predicted, wanted, {.beta = 0, .term = term});
      builder_.apply(std::move(op), {features.predicted[i], features.wanted[i], graph_.loss_statistics});
    }
  }

  void check_targets(const LossConfig& loss) const {
    if (!data_.categorical()) return;
    if (takes_classes(loss.type)) return check_mixed(loss);
    const DataType type = experiment_.data.type;
    const bool may_be_numeric = type == DataType::csv || type == DataType::arrays || type == DataType::synthetic;
    throw located_error(loss.location,
                        fmt::format("{} needs {} as targets; the data has classes", loss_choices().name_of(loss.type),
                                    loss.type == LossType::feature ? "images" : "numbers"),
                        may_be_numeric ? "data.target_type: numeric, or loss: cross_entropy" : "loss: cross_entropy");
  }

 private:
  void check_mixed(const LossConfig& loss) const {
    if (!data_.mixes_batches) return;
    const std::string fix = "loss: cross_entropy, or data.transforms.train without mixup and cutmix";
    if (loss.type != LossType::cross_entropy)
      throw located_error(loss.location,
                          fmt::format("{} takes one class a sample; mixup and cutmix give it a part of two",
                                      loss_choices().name_of(loss.type)),
                          fix);
    if (loss.ignore_index != no_ignored_target)
      throw located_error(loss.location, "mixup and cutmix cannot mix samples that loss.ignore_index leaves out",
                          "no loss.ignore_index, or data.transforms.train without mixup and cutmix");
  }

  void apply(Op op) {
    std::vector<ValueId> inputs = {graph_.prediction, graph_.targets, graph_.loss_statistics};
    if (op.inputs.size() > inputs.size()) inputs.push_back(graph_.mixing);
    builder_.apply(std::move(op), inputs);
  }

  void add_dice(const LossConfig& loss, const LossTerm& term) {
    if (data_.categorical() && data_.num_outputs == 1)
      throw located_error(loss.location, "dice of one class has nothing to learn: it is all there is",
                          "two classes or more, the background among them");
    const Op sums = dice_sums_op(builder_.type(graph_.prediction), builder_.type(graph_.targets),
                                 {.smooth = loss.smooth, .ignore_index = loss.ignore_index, .term = term});
    if (data_.categorical()) check_num_outputs(true);
    const ValueId of_sums = builder_.apply(sums, {graph_.prediction, graph_.targets}, {}, "sums")[0];
    builder_.apply(dice_op(sums), {graph_.prediction, graph_.targets, of_sums, graph_.loss_statistics});
  }

  void check_class_weights(const LossConfig& loss) const {
    if (loss.class_weights.empty() || static_cast<std::int64_t>(loss.class_weights.size()) == data_.num_outputs) return;
    throw located_error(
        loss.location,
        fmt::format("loss.class_weights has {} values for {} classes", loss.class_weights.size(), data_.num_outputs),
        "one weight for each class");
  }

  /// A logit for each class; of two classes one may do, which says whether it is the second.
  void check_num_outputs(bool one_may_do) const {
    const Shape& prediction = builder_.type(graph_.prediction).shape;
    if (prediction[-1] == data_.num_outputs || (one_may_do && prediction[-1] == 1 && data_.num_outputs == 2)) return;
    throw located_error(
        last_layer_location(experiment_),
        fmt::format("the model's output is {} and the data has {} classes", prediction.to_string(), data_.num_outputs),
        fmt::format("a last layer with {} outputs{}", data_.num_outputs,
                    may_be_meant_as_numbers(experiment_, data_, prediction[-1])
                        ? "; or data.target_type: numeric where targets are numbers, not classes"
                        : ""));
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const Experiment& experiment_;
  const DataDescription& data_;
};

/// The counts that evaluations add to are a value of every graph, since they persist; what counts is part of
/// evaluations alone.
void add_metrics(GraphBuilder& builder, Graph& graph, const Experiment& experiment, const DataDescription& data) {
  const Counted counted = counted_by(experiment, data);
  if (counted == Counted::nothing) return;
  Op op = counting_op(counted, experiment, builder.type(graph.prediction), builder.type(graph.targets));
  graph.metric_counts = builder.add_value(op.inputs.back(), "counts", Category::temporary);
  if (graph.mode == GraphMode::evaluation)
    builder.apply(std::move(op), {graph.prediction, graph.targets, graph.metric_counts});
}

/// The means of the whole loss, each with its number of numbers a sample where `features` has them.
void add_parts(Graph& graph, const LossConfig& loss, std::int32_t index, const DataDescription& data,
               const GraphBuilder& builder, const ComparedFeatures& features) {
  if (loss.type != LossType::feature) {
    graph.loss_parts.push_back({.loss = index, .weight = loss.weight, .numbers_of_sample = data.target.num_elements()});
    return;
  }
  for (std::size_t i = 0; i < features.wanted.size(); ++i) {
    const double weight = loss.feature.layer_weight(i);
    graph.loss_parts.push_back({.loss = index,
                                .weight = loss.weight * weight,
                                .weight_in_term = weight,
                                .numbers_of_sample = numbers_of_sample(builder.type(features.wanted[i]))});
  }
}

void add_loss(GraphBuilder& builder, Graph& graph, const Experiment& experiment, const DataDescription& data) {
  LossTranslation translation(builder, graph, experiment, data);
  const std::vector<LossConfig>& losses = experiment.losses;
  int num_parts = 0, part = 0;
  for (const LossConfig& loss : losses) num_parts += static_cast<int>(loss.num_parts());
  for (std::size_t index = 0; index < losses.size(); ++index) {
    const LossConfig& loss = losses[index];
    const std::string path = losses.size() == 1 ? "loss" : fmt::format("loss.{}", index);
    translation.check_targets(loss);
    ComparedFeatures features;
    const bool compares = loss.type == LossType::feature;
    if (compares) features = build_frozen_network(builder, graph, loss, static_cast<std::int32_t>(index), path);
    builder.begin_layer(path, loss_choices().name_of(loss.type), loss.location, graph.prediction);
    try {
      if (index == 0)
        graph.loss_statistics = builder.add_value(loss_statistics_type(num_parts), "statistics", Category::temporary);
      const LossTerm term{.index = part, .count = num_parts};
      if (compares)
        translation.add_distances(loss.feature, features, term);
      else
        translation.add(loss, term);
      add_parts(graph, loss, static_cast<std::int32_t>(index), data, builder, features);
      part += static_cast<int>(loss.num_parts());
      if (index + 1 == losses.size()) add_metrics(builder, graph, experiment, data);
    } catch (const ShapeError& error) {
      throw located_error(last_layer_location(experiment), error.what());
    }
    builder.end_layer(-1);
  }
}

void check_inputs_are_read(const Graph& graph, const std::vector<ValueId>& inputs, const DataDescription& data,
                           const SourceLocation& location) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_read = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
      return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        while (input >= 0 && input != inputs[i]) input = graph.values[input].view_of;
        return input == inputs[i];
      });
    });
    if (!is_read)
      throw located_error(location, fmt::format("no layer reads the input '{}' of the data", data.inputs[i].name));
  }
}

/// A key that changes nothing is rather a mistake; padding changes what samples are.
void check_documents_are_read(const Graph& graph, const DataConfig& config) {
  const auto finds_documents = [](const GraphNode& node) { return node.op.kind == OpKind::document_spans; };
  if (!config.document_token || config.pad_token || std::ranges::any_of(graph.nodes, finds_documents)) return;
  throw located_error(config.location,
                      "data.document_token keeps attention within documents, and the model has no attention",
                      "a model with attention, or no data.document_token");
}

}  // namespace

Graph build_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size, GraphMode mode) {
  Graph graph;
  graph.mode = mode;
  graph.batch_size = batch_size;
  const TrainedLayers trained(experiment);
  GraphBuilder builder(graph, experiment.init, experiment.memory.workspace_limit);
  builder.set_trained_layers(trained);
  builder.set_ranks(rank_layout(experiment.parallel).data_group(), experiment.parallel.sync_batchnorm);
  const std::vector<ValueId> inputs = add_model_inputs(builder, graph, experiment, data, /*has_targets=*/true);
  graph.prediction = build_layers(builder, experiment.layers, "", inputs.front());
  add_loss(builder, graph, experiment, data);
  check_inputs_are_read(graph, inputs, data, experiment.data.location);
  check_documents_are_read(graph, experiment.data);
  builder.check_outputs_are_read();
  trained.check(graph);
  graph.parameter_copies.assign(graph.parameters.size(), -1);
  graph.parameter_gradients.assign(graph.parameters.size(), -1);
  return graph;
}

}  // namespace trainer
