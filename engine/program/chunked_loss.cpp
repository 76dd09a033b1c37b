#include "engine/program/chunked_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/batch_part.h"

namespace trainer {

namespace {

constexpr std::int64_t automatic = -1;

bool is_wide_cast(const Op& op) { return op.kind == OpKind::cast && op.outputs[0].dtype == DType::f32; }
bool is_loss(OpKind kind) { return kind == OpKind::cross_entropy || kind == OpKind::cross_entropy_of_parts; }
bool is_loss_gradient(OpKind kind) {
  return kind == OpKind::cross_entropy_backward || kind == OpKind::cross_entropy_of_parts_backward;
}
bool is_narrow_cast(const Op& op) { return op.kind == OpKind::cast && op.outputs[0].dtype != DType::f32; }

/// The nodes of the last layer, the loss and their gradients.
class ChunkedLoss {
 public:
  explicit ChunkedLoss(Graph& graph) : graph_(graph), readers_(graph.values.size()) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const ValueId input : graph.nodes[n].inputs) readers_[static_cast<std::size_t>(input)].push_back(n);
    for (const Value& value : graph.values)
      if (value.view_of >= 0) is_viewed_.push_back(value.view_of);
  }

  /// False where the graph does not end in a linear layer and its cross-entropy alone, or that layer is frozen.
  bool find() {
    const auto loss = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                   [](const GraphNode& node) { return is_loss(node.op.kind); });
    if (loss == graph_.nodes.end() || graph_.loss_parts.size() > 1) return false;
    loss_ = static_cast<std::size_t>(loss - graph_.nodes.begin());
    replaced_ = {loss_};
    const auto counting = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                       [](const GraphNode& node) { return node.op.kind == OpKind::confusion_matrix; });
    if (counting != graph_.nodes.end()) {
      counting_ = static_cast<std::size_t>(counting - graph_.nodes.begin());
      replaced_.push_back(*counting_);
    }
    if (are_classes_shared()) replace_sums(*loss);
    ValueId logits = loss->inputs[0];
    std::optional<std::size_t> producer = producer_of(logits);
    if (producer && is_wide_cast(graph_.nodes[*producer].op)) {
      if (!is_read_by_loss_alone(logits)) return false;
      replaced_.push_back(*producer);
      logits = graph_.nodes[*producer].inputs[0];
      if (readers(logits).size() != 1 || is_viewed(logits)) return false;
      producer = producer_of(logits);
    } else if (!is_read_by_loss_alone(logits)) {
      return false;
    }
    if (!producer) {
      if (is_added_up(logits))
        obstacle_ = "ranks that share layers (parallel.tensor) add up what the last one makes, and hold all of it";
      return false;
    }
    linear_ = *producer;
    const Op& linear = graph_.nodes[linear_].op;
    if (linear.kind != OpKind::linear || linear.outputs.size() != 1) return false;
    const auto& attributes = attributes_of<LinearAttributes>(linear);
    if (attributes.relu || attributes.gelu) return false;
    replaced_.push_back(linear_);
    return graph_.mode == GraphMode::evaluation || find_gradients();
  }

  /// Whether this rank has the logits of some classes alone.
  bool are_classes_shared() const { return graph_.nodes[loss_].op.kind == OpKind::cross_entropy_of_parts; }

  /// Behind find(), why it was false.
  std::string_view obstacle() const { return obstacle_; }

  /// Of a row of logits; where ranks share them, of the rank that has the most, so that all take the same rows at once.
  std::int64_t classes() const {
    if (!are_classes_shared()) return logits().shape[-1];
    const auto& part = attributes_of<ClassPartAttributes>(graph_.nodes[loss_].op);
    return part_of_batch(part.all_classes, part.ranks.count, 0).count;
  }
  std::int64_t rows() const { return logits().num_elements() / logits().shape[-1]; }

  void replace(std::int64_t chunk_rows) {
    GraphNode node = fused(chunk_rows);
    graph_.nodes[gradient_ ? *gradient_ : loss_] = std::move(node);
    std::erase(replaced_, gradient_ ? *gradient_ : loss_);
    std::vector<GraphNode> kept;
    kept.reserve(graph_.nodes.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (std::find(replaced_.begin(), replaced_.end(), n) == replaced_.end())
        kept.push_back(std::move(graph_.nodes[n]));
    graph_.nodes = std::move(kept);
    graph_.prediction = -1;
  }

 private:
  const TensorType& logits() const { return graph_.nodes[linear_].op.outputs[0]; }
  const std::vector<std::size_t>& readers(ValueId value) const { return readers_[static_cast<std::size_t>(value)]; }
  bool is_viewed(ValueId value) const {
    return std::find(is_viewed_.begin(), is_viewed_.end(), value) != is_viewed_.end();
  }

  std::optional<std::size_t> producer_of(ValueId value) const {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      for (const ValueId output : graph_.nodes[n].outputs)
        if (output == value) return n;
    return std::nullopt;
  }

  /// The one node that reads `value`; none where there are others, or views of it.
  std::optional<std::size_t> only_reader(ValueId value) const {
    if (readers(value).size() != 1 || is_viewed(value)) return std::nullopt;
    return readers(value)[0];
  }

  bool is_read_by_loss_alone(ValueId logits) const {
    return !is_viewed(logits) && std::all_of(readers(logits).begin(), readers(logits).end(), [&](std::size_t n) {
      const OpKind kind = graph_.nodes[n].op.kind;
      return is_loss(kind) || is_loss_gradient(kind) || kind == OpKind::confusion_matrix ||
             kind == OpKind::class_statistics || kind == OpKind::class_order;
    });
  }

  /// Whether it is a view of terms that ranks add up.
  bool is_added_up(ValueId value) const {
    const ValueId terms = graph_.values[static_cast<std::size_t>(value)].view_of;
    return terms >= 0 && std::any_of(readers(terms).begin(), readers(terms).end(),
                                     [&](std::size_t n) { return graph_.nodes[n].op.kind == OpKind::all_reduce; });
  }

  /// What the loss of shared classes reads: statistics and orders, and the sums of them.
  void replace_sums(const GraphNode& loss) {
    constexpr std::size_t statistics = 2, order = 3;
    for (const ValueId found : {loss.inputs[statistics], loss.inputs[order]}) {
      replaced_.push_back(*producer_of(found));
      for (const std::size_t n : readers(found))
        if (graph_.nodes[n].op.kind == OpKind::all_reduce) replaced_.push_back(n);
    }
  }

  bool find_gradients() {
    const auto found = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                    [](const GraphNode& node) { return is_loss_gradient(node.op.kind); });
    if (found == graph_.nodes.end()) return false;
    gradient_ = static_cast<std::size_t>(found - graph_.nodes.begin());
    replaced_.push_back(*gradient_);
    ValueId dlogits = found->outputs[0];
    dlogits = through(
        dlogits, [&](const Op& op) { return op.kind == OpKind::scale_gradient; }, &scale_);
    dlogits = through(dlogits, is_narrow_cast, nullptr);
    if (is_viewed(dlogits)) return false;
    for (const std::size_t n : readers(dlogits)) {
      const GraphNode& node = graph_.nodes[n];
      const bool is_of_layer = node.op.kind == OpKind::linear_backward_weight
                                   ? node.inputs[1] == graph_.nodes[linear_].inputs[0] && weight_gradient_ == nullptr
                                   : node.op.kind == OpKind::linear_backward_input && input_gradient_ == nullptr;
      if (!is_of_layer) return false;
      (node.op.kind == OpKind::linear_backward_weight ? weight_gradient_ : input_gradient_) = &node;
      replaced_.push_back(n);
    }
    if (weight_gradient_ == nullptr) {
      obstacle_ = "the last layer's weight is frozen, and chunks are taken where it learns";
      return false;
    }
    return place_weight_gradients();
  }

  /// The result of the node that alone reads `value`, where it is one of those looked for; else `value`.
  template <typename IsOne>
  ValueId through(ValueId value, IsOne&& is_one, const GraphNode** node) {
    const std::optional<std::size_t> reader = only_reader(value);
    if (!reader || !is_one(graph_.nodes[*reader].op)) return value;
    replaced_.push_back(*reader);
    if (node != nullptr) *node = &graph_.nodes[*reader];
    return graph_.nodes[*reader].outputs[0];
  }

  /// dW[, db], or what they are widened to.
  bool place_weight_gradients() {
    for (const ValueId gradient : weight_gradient_->outputs)
      weight_gradients_.push_back(through(gradient, is_wide_cast, nullptr));
    const auto type = [&](ValueId value) { return graph_.values[static_cast<std::size_t>(value)].type.dtype; };
    return std::all_of(weight_gradients_.begin(), weight_gradients_.end(),
                       [&](ValueId value) { return type(value) == type(weight_gradients_[0]); });
  }

  GraphNode fused(std::int64_t chunk_rows) const {
    const GraphNode &linear = graph_.nodes[linear_], &loss = graph_.nodes[loss_];
    LinearCrossEntropyAttributes attributes{
        .loss = {},
        .bias = attributes_of<LinearAttributes>(linear.op).bias,
        .chunk_rows = chunk_rows,
        .input_gradient = input_gradient_ != nullptr,
        .counts = counting_.has_value(),
        .scaled = scale_ != nullptr,
    };
    GraphNode node{{}, linear.inputs, {}, linear.layer, Phase::forward};
    if (are_classes_shared()) {
      attributes.part = attributes_of<ClassPartAttributes>(loss.op);
      node.inputs.insert(node.inputs.end(), {loss.inputs[1], loss.inputs.back()});
    } else {
      attributes.loss = attributes_of<CrossEntropyAttributes>(loss.op);
      node.inputs.insert(node.inputs.end(), loss.inputs.begin() + 1, loss.inputs.end());
    }
    const TensorType &x = linear.op.inputs[0], &weight = linear.op.inputs[1], &targets = loss.op.inputs[1];
    if (!gradient_) {
      if (counting_) node.inputs.push_back(graph_.nodes[*counting_].inputs.back());
      node.op = linear_cross_entropy_op(x, weight, targets, attributes);
      return node;
    }
    const DType gradient_type = graph_.values[static_cast<std::size_t>(weight_gradients_[0])].type.dtype;
    node.op = linear_cross_entropy_with_gradient_op(x, weight, targets, attributes, gradient_type);
    if (scale_ != nullptr) node.inputs.push_back(scale_->inputs[1]);
    node.outputs = weight_gradients_;
    if (input_gradient_ != nullptr) node.outputs.push_back(input_gradient_->outputs[0]);
    node.phase = Phase::backward;
    return node;
  }

  Graph& graph_;
  std::vector<std::vector<std::size_t>> readers_;  // by value
  std::vector<ValueId> is_viewed_;
  std::size_t loss_ = 0, linear_ = 0;
  std::optional<std::size_t> gradient_;  // of the logits
  std::optional<std::size_t> counting_;  // which class is taken for which
  const GraphNode *scale_ = nullptr, *weight_gradient_ = nullptr, *input_gradient_ = nullptr;
  std::string_view obstacle_ =
      "the model does not end in a linear layer, without an activation, whose result only a cross_entropy loss reads";
  std::vector<ValueId> weight_gradients_;
  std::vector<std::size_t> replaced_;
};

}  // namespace

std::int64_t loss_chunk_rows(std::int64_t chunked_loss, std::int64_t rows, std::int64_t classes, bool are_shared) {
  constexpr std::int64_t least_classes = 1024;
  if (chunked_loss != automatic) return chunked_loss;
  const std::int64_t chunk_bytes = std::int64_t{are_shared ? 64 : 16} << 20;
  const std::int64_t most_logits_bytes = 2 * chunk_bytes;
  const std::int64_t row_bytes = classes * static_cast<std::int64_t>(sizeof(float));
  if (classes < least_classes || rows * row_bytes <= most_logits_bytes) return 0;
  std::int64_t chunk_rows = 1;
  while (2 * chunk_rows * row_bytes <= chunk_bytes) chunk_rows *= 2;
  return chunk_rows;
}

void chunk_loss(Graph& graph, std::int64_t chunked_loss, std::int64_t num_samples) {
  if (chunked_loss == 0) return;
  ChunkedLoss loss(graph);
  if (loss.find()) {
    const std::int64_t chunk_rows = loss_chunk_rows(chunked_loss, loss.rows() / graph.batch_size * num_samples,
                                                    loss.classes(), loss.are_classes_shared());
    if (chunk_rows > 0) loss.replace(chunk_rows);
  } else if (chunked_loss != automatic) {
    throw ConfigError(fmt::format("memory.chunked_loss is {}, but {}; set memory.chunked_loss to auto or 0",
                                  chunked_loss, loss.obstacle()));
  }
}

}  // namespace trainer
