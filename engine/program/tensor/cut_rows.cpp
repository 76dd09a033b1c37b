#include "engine/program/tensor/cut_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/program/tensor/added_value.h"

namespace trainer {
namespace {

/// Whether an op computes each row of its first inputs by itself, to the same row of its first output.
bool computes_rows(const Op& op) {
  switch (op.kind) {
    case OpKind::layernorm:
    case OpKind::activation:
    case OpKind::dropout:
    case OpKind::add:
      return true;
    default:
      return false;
  }
}

/// The operands of such an op that have rows; the others are weights.
std::size_t num_row_operands(const GraphNode& node) { return node.op.kind == OpKind::add ? node.inputs.size() : 1; }

class RowCutter {
 public:
  RowCutter(Graph& graph, const RankLayout& ranks)
      : graph_(graph), group_(ranks.tensor_group()), place_(ranks.tensor_place()) {
    for (const GraphNode& node : graph.nodes)
      for (const ValueId input : node.inputs) readers_[input].push_back(&node);
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      if (const ValueId viewed = graph.values[v].view_of; viewed >= 0)
        views_[viewed].push_back(static_cast<ValueId>(v));
    for (const SharedInput& shared : graph.shared_inputs) is_shared_.insert(shared.view);
    for (ValueId value = graph.prediction; value >= 0; value = graph.values[value].view_of) predicted_.insert(value);
    graph.gradient_terms.resize(graph.parameters.size());
  }

  void run() {
    std::vector<GraphNode> all;
    all.swap(graph_.nodes);
    // Which of them are sums is asked before any node is another.
    for (const GraphNode& node : all) {
      const ValueId sum = node.op.kind == OpKind::all_reduce ? sum_of_terms(node.inputs[0]) : -1;
      if (sum >= 0 && !predicted_.contains(sum) && has_rows(sum) && is_read_by_rows(sum)) cut_sums_.insert(sum);
    }
    for (const GraphNode& node : all) cut(node);
    std::erase_if(graph_.shared_inputs, [&](const SharedInput& shared) { return is_gathered_.contains(shared.view); });
    for (const GraphNode& node : graph_.nodes)
      for (const ValueId input : node.inputs) {
        const Value& value = graph_.values[input];
        require_internal(
            value.view_of < 0 || value.type.num_elements() == graph_.values[value.view_of].type.num_elements(),
            "a view is of all that it views");
      }
  }

 private:
  /// What reads the terms of a sum reads this view of them; -1: they are no layer's.
  ValueId sum_of_terms(ValueId terms) const {
    const auto found = views_.find(terms);
    return found != views_.end() && found->second.size() == 1 ? found->second.front() : -1;
  }
  bool has_rows(ValueId value) const {
    const Shape& shape = graph_.values[value].type.shape;
    return shape.rank() == 3 && shape[1] % group_.count == 0;
  }
  bool is_read_by_rows(ValueId value) const {
    const auto found = readers_.find(value);
    return found != readers_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                  [&](const GraphNode* node) { return can_be_cut(*node); });
  }
  /// Weights that another op uses as well would have a gradient of both kinds.
  bool can_be_cut(const GraphNode& node) const {
    return computes_rows(node.op) && !predicted_.contains(node.outputs[0]) &&
           std::all_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(num_row_operands(node)), node.inputs.end(),
                       [&](ValueId weight) { return readers_.at(weight).size() == 1; });
  }
  bool is_cut(ValueId value) const { return sample_rows_.contains(value); }
  /// What is cut of a value and those that it is a view of, or the last of these.
  ValueId cut_root(ValueId value) const {
    while (!is_cut(value) && graph_.values[value].view_of >= 0) value = graph_.values[value].view_of;
    return value;
  }

  void cut(const GraphNode& node) {
    if (node.op.kind == OpKind::all_reduce)
      if (const ValueId sum = sum_of_terms(node.inputs[0]); cut_sums_.contains(sum)) return scatter(node, sum);
    if (!can_be_cut(node)) return keep_whole(node);
    const auto operands = node.inputs.begin() + static_cast<std::ptrdiff_t>(num_row_operands(node));
    const bool reads_rows =
        std::any_of(node.inputs.begin(), operands, [&](ValueId operand) { return is_cut(operand); });
    const bool reads_views = std::any_of(
        node.inputs.begin(), operands, [&](ValueId operand) { return !is_cut(operand) && is_cut(cut_root(operand)); });
    if (!reads_rows || reads_views) return keep_whole(node);
    cut_rows_of(node);
  }

  void scatter(const GraphNode& node, ValueId sum) {
    Value& info = graph_.values[sum];
    const Op op = reduce_scatter_rows_op(info.type, group_, place_);
    sample_rows_[sum] = info.type.shape[1];
    info.view_of = -1;
    wholes_[sum] = info.type;
    info.type = op.outputs[0];
    graph_.nodes.push_back({op, node.inputs, {sum}, node.layer, Phase::forward});
  }

  /// The node with this rank's rows of all that it reads.
  void cut_rows_of(GraphNode node) {
    std::int64_t sample_rows = 0;
    TensorType whole;
    for (std::size_t i = 0; i < num_row_operands(node); ++i)
      if (is_cut(node.inputs[i])) {
        sample_rows = sample_rows_.at(node.inputs[i]);
        whole = wholes_.at(node.inputs[i]);
      }
    for (std::size_t i = 0; i < num_row_operands(node); ++i)
      if (!is_cut(node.inputs[i])) node.inputs[i] = sliced(node.inputs[i], node.layer);
    const TensorType& x = graph_.values[node.inputs[0]].type;
    const std::int64_t rows = x.shape[0];
    for (std::size_t i = num_row_operands(node); i < node.inputs.size(); ++i)
      graph_.gradient_terms[graph_.values[node.inputs[i]].parameter] = true;
    switch (node.op.kind) {
      case OpKind::layernorm:
        node.op = layernorm_op(x, attributes_of<LayerNormAttributes>(node.op));
        break;
      case OpKind::dropout: {
        DropoutAttributes attributes = attributes_of<DropoutAttributes>(node.op);
        attributes.sample_rows = sample_rows;
        attributes.first_row = place_ * rows;
        node.op = dropout_op(x, attributes);
        break;
      }
      default:
        for (TensorType& input : node.op.inputs) input = x;
        node.op.outputs[0] = x;
    }
    const ValueId output = node.outputs[0];
    sample_rows_[output] = sample_rows;
    wholes_[output] = {graph_.values[output].type.dtype, whole.shape};
    for (std::size_t i = 0; i < node.outputs.size(); ++i) graph_.values[node.outputs[i]].type = node.op.outputs[i];
    graph_.nodes.push_back(std::move(node));
  }

  /// The node as it is, which reads all rows.
  void keep_whole(GraphNode node) {
    for (ValueId& input : node.inputs)
      if (is_cut(cut_root(input))) input = whole_of(input, node.layer);
    graph_.nodes.push_back(std::move(node));
  }

  /// What `value`, which is cut or a view of what is, is of all rows. Readers of a shared input have terms of its
  /// gradient, all others the same.
  ValueId whole_of(ValueId value, LayerId layer) {
    std::vector<ValueId> views;
    bool is_alike = true;
    for (; !is_cut(value); value = graph_.values[value].view_of) {
      views.push_back(value);
      is_alike = is_alike && !is_shared_.contains(value);
    }
    ValueId whole = gathered(value, layer, is_alike);
    for (std::size_t i = views.size(); i-- > 0;) {
      if (is_shared_.contains(views[i])) {  // which the gather stands for
        is_gathered_.insert(views[i]);
        continue;
      }
      const auto [known, is_new] = whole_views_.try_emplace({views[i], is_alike}, -1);
      if (is_new) {
        const Value view = graph_.values[views[i]];
        known->second = add_view(whole, {graph_.values[whole].type.dtype, view.type.shape}, view.role, view.layer);
      }
      whole = known->second;
    }
    return whole;
  }

  ValueId gathered(ValueId part, LayerId layer, bool is_alike) {
    const auto [known, is_new] = gathered_.try_emplace({part, is_alike}, -1);
    if (!is_new) return known->second;
    const TensorType whole = wholes_.at(part);
    const ValueId value = add_activation(graph_, whole, graph_.values[part].role + ".gathered", layer);
    graph_.nodes.push_back(
        {all_gather_rows_op(whole, group_, place_, is_alike), {part}, {value}, layer, Phase::forward});
    return known->second = value;
  }

  /// This rank's rows of what all have: one row of all its numbers, of which it takes a range. The gradient of that is
  /// 0 but for the range, and added up.
  ValueId sliced(ValueId whole, LayerId layer) {
    const auto [known, is_new] = sliced_.try_emplace(whole, -1);
    if (!is_new) return known->second;
    const TensorType type = graph_.values[whole].type;
    const std::int64_t count = type.num_elements(), columns = type.shape[-1], own = count / group_.count;
    const ValueId row = add_view(whole, {type.dtype, {1, count}}, "row", layer);
    graph_.shared_inputs.push_back({row, group_});
    const Op op = channel_slice_op(graph_.values[row].type, own, {.first = place_ * own});
    const ValueId slice = add_activation(graph_, op.outputs[0], graph_.values[whole].role + ".slice", layer);
    graph_.nodes.push_back({op, {row}, {slice}, layer, Phase::forward});
    const ValueId rows = add_view(slice, {type.dtype, {own / columns, columns}}, "rows", layer);
    sample_rows_[rows] = type.shape[1];
    wholes_[rows] = type;
    return known->second = rows;
  }

  ValueId add_view(ValueId of, const TensorType& type, std::string role, LayerId layer) {
    const ValueId view = add_activation(graph_, type, std::move(role), layer);
    graph_.values[view].view_of = of;
    return view;
  }

  Graph& graph_;
  const RankGroup group_;
  const std::int64_t place_;
  std::map<ValueId, std::vector<const GraphNode*>> readers_;
  std::map<ValueId, std::vector<ValueId>> views_;
  std::set<ValueId> is_shared_, is_gathered_;  ///< views of SharedInput, and those that are gathered instead
  std::set<ValueId> predicted_;                ///< the prediction, and what it is a view of
  std::set<ValueId> cut_sums_;
  // Of values of which this rank has rows: rows of a sample, and the type of all rows.
  std::map<ValueId, std::int64_t> sample_rows_;
  std::map<ValueId, TensorType> wholes_;
  std::map<std::pair<ValueId, bool>, ValueId> gathered_;
  std::map<ValueId, ValueId> sliced_;
  std::map<std::pair<ValueId, bool>, ValueId> whole_views_;  ///< by the view of what is cut
};

}  // namespace

void cut_rows(Graph& forward, const RankLayout& ranks) { RowCutter(forward, ranks).run(); }

}  // namespace trainer
