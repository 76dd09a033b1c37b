#include "engine/graph/generation_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/config/diagnostic.h"
#include "engine/graph/graph_builder.h"
#include "engine/graph/prediction_graph.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Whether an op gives the same for a token whatever stands beside it, attention aside.
bool treats_tokens_alone(OpKind kind) {
  switch (kind) {
    case OpKind::cast:
    case OpKind::linear:
    case OpKind::layernorm:
    case OpKind::activation:
    case OpKind::glu:
    case OpKind::prelu:
    case OpKind::embedding:
    case OpKind::position_embedding:
    case OpKind::document_spans:
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::concat:
    case OpKind::channel_slice:
      return true;
    default:
      return false;
  }
}

/// Whether a node adds the row of each token's place; that of its type is the same everywhere.
bool adds_places(const Graph& graph, const GraphNode& node) {
  return node.op.kind == OpKind::position_embedding && graph.layers[node.layer].kind != "token_type_embedding";
}

ConfigError refused_layer(const Layer& layer, std::string_view why, std::string_view expectation) {
  return located_error(layer.location, fmt::format("layer '{}' ({}) {}", layer.path, layer.kind, why), expectation);
}

/// Why a layer is refused that sees what stands behind a token, or beside it.
struct TokenRefusals {
  std::string_view of_attention, of_layer;
};

void check_tokens_stand_alone(const Graph& graph, const TokenRefusals& refusals) {
  for (const GraphNode& node : graph.nodes) {
    const Layer& layer = graph.layers[node.layer];
    if (node.op.kind == OpKind::attention) {
      const auto& attributes = attributes_of<AttentionAttributes>(node.op);
      const AttentionShape shape = attention_shape(node.op);
      if (!attributes.causal) throw refused_layer(layer, refusals.of_attention, "attention with causal: true");
      require_internal(shape.queries == shape.keys, "causal attention has as many keys as queries");
    } else if (!treats_tokens_alone(node.op.kind)) {
      throw refused_layer(layer, refusals.of_layer,
                          "a model of embeddings, norms, linear layers, activations and causal attention");
    }
  }
}

}  // namespace

Graph build_generation_graph(const Experiment& experiment, std::int64_t num_tokens) {
  Graph graph;
  graph.mode = GraphMode::evaluation;
  graph.batch_size = 1;
  GraphBuilder builder(graph, experiment.init, experiment.memory.workspace_limit);
  const TensorType tokens{DType::i32, {1, num_tokens}};
  builder.begin_layer("input", std::string(name_of(DType::i32)), experiment.data.location, -1);
  for (const char* role : {"tokens", "positions"})
    graph.inputs.push_back(builder.add_value(tokens, role, Category::input));
  builder.end_layer(graph.inputs.front());
  builder.add_input("input", graph.inputs.front());
  graph.prediction = build_layers(builder, experiment.layers, "", graph.inputs.front());
  check_tokens_stand_alone(graph,
                           {"sees tokens that are not written yet, so the model cannot write a text",
                            "does not treat each token by itself, so the model cannot write a text token by token"});
  builder.check_outputs_are_read();
  const Value& prediction = graph.values[graph.prediction];
  if (prediction.type.shape.rank() != 3 || prediction.view_of >= 0 || graph.nodes.empty() ||
      std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const GraphNode& node) { return node.op.kind == OpKind::attention; }))
    throw located_error(experiment.layers.empty() ? experiment.loss_location : experiment.layers.back().location,
                        fmt::format("the model's output is {}: no logits of a next token behind each token",
                                    prediction.type.shape.to_string()),
                        "a model of tokens with causal attention, such as configs/models/gpt2.yaml");
  graph.parameter_copies.assign(graph.parameters.size(), -1);
  graph.parameter_gradients.assign(graph.parameters.size(), -1);
  return graph;
}

void require_next_token_model(const Experiment& experiment, const DataDescription& data) {
  if (experiment.data.mask_token)
    throw located_error(
        experiment.data.location,
        "the model guesses tokens that a mask hides (data.mask_token); of texts the next token is predicted",
        "a model of tokens with causal attention, such as configs/models/gpt2.yaml");
  const Graph graph = build_prediction_graph(experiment, data, 1);
  const TensorType& prediction = graph.values[graph.prediction].type;
  const Shape& tokens = data.inputs.front().type.shape;
  const bool compares_classes = std::any_of(experiment.losses.begin(), experiment.losses.end(),
                                            [](const auto& loss) { return loss.type == LossType::cross_entropy; });
  if (prediction.shape.rank() != 3 || tokens.rank() != 1 || prediction.shape[1] != tokens[0] || !compares_classes)
    throw located_error(
        experiment.layers.empty() ? experiment.loss_location : experiment.layers.back().location,
        fmt::format(
            "the model's output for a text is {}: no logits of a next token behind each token, which is what is "
            "predicted of texts",
            prediction.shape.to_string()),
        "a model of tokens with loss cross_entropy, such as configs/models/gpt2.yaml");
  if (const std::int64_t vocabulary = data.inputs.front().num_indices; prediction.shape[2] < vocabulary)
    throw located_error(
        experiment.layers.back().location,
        fmt::format("the model has logits of {} tokens, and its data has {}", prediction.shape[2], vocabulary),
        fmt::format("a last layer with {} outputs", vocabulary));
  check_tokens_stand_alone(graph,
                           {"sees the tokens behind each, which it is to predict, and so cannot tell of a text",
                            "does not treat each token by itself and may see those that it is to predict, so the model "
                            "cannot tell of a text"});
}

void keep_attention(Graph& graph, std::int64_t length) {
  const ValueId positions = graph.inputs[1];
  for (GraphNode& node : graph.nodes) {
    if (adds_places(graph, node)) {
      node.op = position_embedding_at_op(node.op);
      node.inputs.push_back(positions);
    }
    if (node.op.kind != OpKind::attention) continue;
    const TensorType cache = attention_cache_type(node.op, length);
    node.op = cached_attention_op(node.op, length);
    node.inputs.push_back(positions);
    node.outputs.resize(1);
    for (const char* role : {"keys", "values"}) {
      Value value;
      value.type = cache;
      value.role = role;
      value.layer = node.layer;
      graph.values.push_back(std::move(value));
      graph.kept.push_back(static_cast<ValueId>(graph.values.size() - 1));
      node.inputs.push_back(graph.kept.back());
    }
  }
  graph.kept.push_back(graph.prediction);
}

void leave_out_prediction(Graph& graph) {
  std::vector<char> is_needed(graph.values.size(), 0);
  std::vector<GraphNode> nodes;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool is_read =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId output) { return is_needed[output] != 0; });
    if (!is_read && node->op.kind != OpKind::cached_attention) continue;
    for (ValueId input : node->inputs)
      for (; input >= 0; input = graph.values[input].view_of) is_needed[input] = 1;
    nodes.push_back(std::move(*node));
  }
  std::reverse(nodes.begin(), nodes.end());
  graph.nodes = std::move(nodes);
}

std::int64_t most_positions(const Graph& graph) {
  std::int64_t most = 0;
  for (const GraphNode& node : graph.nodes)
    if (adds_places(graph, node)) {
      const std::int64_t length = node.op.inputs[1].shape[0];
      most = most == 0 ? length : std::min(most, length);
    }
  return most;
}

}  // namespace trainer
