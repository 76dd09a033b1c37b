#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/axis_cut.h"
#include "engine/category.h"
#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/graph/file_order.h"
#include "engine/ops/op.h"
#include "engine/rank_layout.h"

namespace trainer {

using ValueId = std::int32_t;
using LayerId = std::int32_t;
inline constexpr LayerId no_layer = -1;

/// A tensor: made by one node, or given (parameters, the batch).
struct Value {
  TensorType type;
  std::string role;  ///< "output", "weight", "input.grad": with the layer's path it names the buffer
  Category category = Category::activation;
  LayerId layer = no_layer;
  /// Index into Graph::parameters for weights, their 16-bit copies and running statistics; -1 for all else.
  std::int32_t parameter = -1;
  /// The value whose memory this one shares whole, in the same order (flatten of features); -1: memory of its own.
  ValueId view_of = -1;
};

/// One op applied to values. Order in Graph::nodes is order of execution.
struct GraphNode {
  Op op;
  std::vector<ValueId> inputs, outputs;
  LayerId layer = no_layer;
  Phase phase = Phase::forward;
};

/// A leaf of the model, for messages and tables.
struct Layer {
  std::string path;  ///< "0", "body.3.layers.1", or the name: what parameters are named after
  std::string kind;  ///< "conv2d"
  SourceLocation location;
  TensorType input, output;
  std::int64_t num_parameters = 0;  ///< of its own
  std::int64_t forward_flops = 0;
  bool is_frozen = false;  ///< of a frozen network
  std::string shares{};    ///< the layer whose parameters it uses; empty: it has its own, if any
};

/// A tensor that training keeps: weights, and running statistics (not trainable).
struct Parameter {
  std::string name;  ///< "<layer path>.weight": as saved
  TensorType type;   ///< as on the device
  FileOrder file_order = FileOrder::same;
  LayerId layer = no_layer;
  bool trainable = true;                          ///< a weight that is not frozen
  bool is_weight = true;                          ///< false for running statistics
  std::int32_t group = 0;                         ///< in Experiment::groups; 0 where there are none
  bool decays = true;                             ///< false for norms and biases
  Initialization init = Initialization::pytorch;  ///< of what starts at random
  enum class Start : std::uint8_t {
    random_weight,
    random_rows,  ///< of an embedding
    random_bias,
    zeros,
    ones,
    constant
  } start = Start::random_weight;
  double constant = 0;  ///< where it starts as one
  double scale = 1;     ///< of what starts at random
  std::int64_t fan_in = 0, fan_out = 0;
  std::int64_t groups = 1;  ///< of a convolution, which its shape does not tell
  /// The frozen network that it is of, in Graph::frozen_networks; -1: it is the model's.
  std::int32_t network = -1;
  std::string network_name;      ///< of a frozen network: its name there, and in files
  std::vector<float> constants;  ///< of a frozen network: what it holds, where that is not a file's

  bool is_frozen() const { return network >= 0; }
};

/// See Note [Frozen networks] in frozen_network.h.
struct FrozenNetwork {
  std::int32_t loss = 0;     ///< in Experiment::losses
  LayerId layer = no_layer;  ///< whose its parameters are
};

/// A mean that the loss adds up.
struct LossPart {
  std::int32_t loss = 0;               ///< in Experiment::losses
  double weight = 1;                   ///< in the whole loss, that of the term included
  double weight_in_term = 1;           ///< in its term
  std::int64_t numbers_of_sample = 0;  ///< targets, or numbers of a layer's output
};

/// A view whose readers are shared by ranks: the gradient of what it views is the sum of theirs.
struct SharedInput {
  ValueId view = -1;
  RankGroup ranks{};
};

enum class GraphMode : std::uint8_t { training, evaluation };

/// The model, its loss and, after differentiate(), its backward pass, at one batch size.
struct Graph {
  GraphMode mode = GraphMode::training;
  std::int64_t batch_size = 0;
  std::vector<Value> values;
  std::vector<GraphNode> nodes;
  std::vector<Layer> layers;
  std::vector<Parameter> parameters;         ///< the same for every batch size and mode
  std::vector<ValueId> parameter_values;     ///< by parameter
  std::vector<ValueId> parameter_copies;     ///< by parameter: what products read under mixed precision; -1: itself
  std::vector<ValueId> parameter_gradients;  ///< by parameter; -1: none. Filled by differentiate()
  bool keeps_gradients_in_f32 = true;        ///< 16-bit gradients of parameters are widened as soon as they are made
  std::vector<ValueId> inputs;               ///< the samples as they arrive
  ValueId targets = -1;
  ValueId mixing = -1;                         ///< of training batches that are mixed; -1: they are not
  ValueId prediction = -1;                     ///< what the loss reads: logits
  ValueId loss_statistics = -1;                ///< f64 (num_loss_statistics) of each part of the loss
  std::vector<LossPart> loss_parts;            ///< in the order of their statistics, terms one after the other
  std::vector<FrozenNetwork> frozen_networks;  ///< one for each loss on features
  ValueId metric_counts = -1;  ///< what evaluations count in beside the loss (engine/graph/metrics.h); -1: nothing
  ValueId loss_scale = -1;     ///< f64 (num_loss_scale_values), what the loss's gradient is multiplied by; -1: 1
  /// By parameter: how ranks that share layers cut it; its value has the type of this rank's part. Empty: they do not.
  std::vector<std::optional<AxisCut>> parameter_cuts;
  std::vector<SharedInput> shared_inputs;
  /// By parameter: whether what is found of its gradient is a term, which ranks that share layers add up. Empty: of
  /// none.
  std::vector<bool> gradient_terms;
  /// What outlives the graph's run and is no parameter: of a text that is written, in generation_graph.h.
  std::vector<ValueId> kept;

  /// The inputs, the targets, where there are any, and what mixes them: Note [Fields of a batch] in data_description.h.
  std::vector<ValueId> fields() const {
    std::vector<ValueId> fields = inputs;
    if (targets >= 0) fields.push_back(targets);
    if (mixing >= 0) fields.push_back(mixing);
    return fields;
  }
};

/// The value whose memory a value has, its own or that of what it is a view of.
inline ValueId root_of(const Graph& graph, ValueId value) {
  while (graph.values[static_cast<std::size_t>(value)].view_of >= 0)
    value = graph.values[static_cast<std::size_t>(value)].view_of;
  return value;
}

/// Builds the forward pass and the loss. Throws ConfigError that points at the layer's line where shapes disagree.
Graph build_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size, GraphMode mode);

/// Appends the backward pass: for each node, in reverse, its gradient rule (engine/ops).
void differentiate(Graph& graph);

}  // namespace trainer
