#include "engine/program/tensor/cut_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/graph/metrics.h"
#include "engine/program/tensor/added_value.h"
#include "engine/program/tensor/cut_rows.h"
#include "engine/program/tensor/layer_regions.h"

namespace trainer {
namespace {

/// Whether ranks can compute the loss of parts of the classes.
bool can_cut_loss(const Experiment& experiment, const DataDescription& data) {
  if (experiment.losses.size() != 1 || data.mixes_batches) return false;
  const LossConfig& loss = experiment.losses.front();
  return loss.type == LossType::cross_entropy && loss.class_weights.empty() &&
         counted_by(experiment, data) == Counted::nothing;
}

class LayerCutter {
 public:
  LayerCutter(Graph& graph, const RankLayout& ranks)
      : graph_(graph), group_(ranks.tensor_group()), place_(ranks.tensor_place()) {
    graph.parameter_cuts.resize(graph.parameters.size());
  }

  void cut(const LayerRegion& region) {
    for (const auto& [value, sections] : region.sections) graph_.values[value].type.shape[-1] = own_length(sections);
    std::map<ValueId, ValueId> shared;
    for (const std::size_t n : region.starts) {
      GraphNode& node = graph_.nodes[n];
      const std::vector<std::int64_t>& sections = region.sections.at(node.outputs[0]);
      for (std::size_t i = 1; i < node.inputs.size(); ++i) cut_parameter(node.inputs[i], {0, sections});
      share_input(node, shared);
      resize_linear(node);
    }
    for (const std::size_t n : region.inner) resize_inner(graph_.nodes[n], region);
    for (const std::size_t n : region.ends) {
      GraphNode& node = graph_.nodes[n];
      cut_parameter(node.inputs[1], {1, region.sections.at(node.inputs[0])});
      if (node.inputs.size() > 2) {
        cut_parameter(node.inputs[2], {0, {}});
        if (place_ > 0) node.inputs.pop_back();
      }
      resize_linear(node);
      add_up(n);
    }
  }

  void cut(const ClassCut& classes) {
    const std::int64_t num_classes = graph_.parameters[classes.parameter].type.shape[0];
    const AxisCut rows{0, {num_classes}};
    const std::int64_t first = rows.ranges({num_classes}, group_.count, place_).front().begin;
    cut_parameter(graph_.parameter_values[classes.parameter], rows);
    for (const std::size_t n : classes.lookups) {
      Op& op = graph_.nodes[n].op;
      op.inputs[1] = graph_.values[graph_.nodes[n].inputs[1]].type;
      auto& attributes = std::get<EmbeddingAttributes>(op.attributes);
      attributes.all_rows = num_classes;
      attributes.first_row = first;
      add_up(n);
    }
    if (classes.head) cut_head(*classes.head, rows, first);
  }

  /// The nodes with those that add up behind them.
  void finish() {
    std::vector<GraphNode> nodes;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto replaced = replaced_.find(n);
      if (replaced != replaced_.end())
        nodes.insert(nodes.end(), replaced->second.begin(), replaced->second.end());
      else
        nodes.push_back(std::move(graph_.nodes[n]));
      if (const auto sum = sums_.find(n); sum != sums_.end()) nodes.push_back(std::move(sum->second));
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  std::int64_t own_length(const std::vector<std::int64_t>& sections) const {
    std::int64_t length = 0;
    for (const std::int64_t section : sections) length += part_of_batch(section, group_.count, place_).count;
    return length;
  }

  void cut_parameter(ValueId value, AxisCut cut) {
    Value& info = graph_.values[value];
    require_internal(!graph_.parameter_cuts[info.parameter], "a parameter is cut once");
    info.type.shape = cut.own_shape(info.type.shape, group_.count, place_);
    graph_.parameter_cuts[info.parameter] = std::move(cut);
  }

  /// The node reads a view of its input, one for all of a region.
  void share_input(GraphNode& node, std::map<ValueId, ValueId>& shared) {
    const ValueId x = node.inputs[0];
    const auto [known, is_new] = shared.try_emplace(x, -1);
    if (is_new) {
      known->second = add_activation(graph_, graph_.values[x].type, "input.shared", node.layer);
      graph_.values[known->second].view_of = x;
      graph_.shared_inputs.push_back({known->second, group_});
    }
    node.inputs[0] = known->second;
  }

  void resize_linear(GraphNode& node) const {
    LinearAttributes attributes = attributes_of<LinearAttributes>(node.op);
    attributes.out = graph_.values[node.outputs[0]].type.shape[-1];
    attributes.bias = node.inputs.size() > 2;
    node.op = linear_op(graph_.values[node.inputs[0]].type, attributes);
  }

  void resize_inner(GraphNode& node, const LayerRegion& region) {
    if (node.op.kind == OpKind::attention) {
      auto& attributes = std::get<AttentionAttributes>(node.op.attributes);
      attributes.all_heads = attributes.heads;
      attributes.heads /= group_.count;
      attributes.kv_heads /= group_.count;
      attributes.first_head = place_ * attributes.heads;
    }
    if (node.op.kind == OpKind::dropout) {
      const std::int64_t columns = region.sections.at(node.outputs[0]).front();
      auto& attributes = std::get<DropoutAttributes>(node.op.attributes);
      attributes.all_columns = columns;
      attributes.first_column = part_of_batch(columns, group_.count, place_).begin;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) node.op.inputs[i] = graph_.values[node.inputs[i]].type;
    node.op.outputs[0] = graph_.values[node.outputs[0]].type;
    if (node.op.kind != OpKind::attention) return;
    Value& logarithms = graph_.values[node.outputs[1]];
    logarithms.type.shape[1] = attributes_of<AttentionAttributes>(node.op).heads;
    node.op.outputs[1] = logarithms.type;
  }

  /// What node n makes is a term of a sum: what reads it reads the sum, a view of the term.
  void add_up(std::size_t n) {
    GraphNode& node = graph_.nodes[n];
    const ValueId sum = node.outputs[0];
    const Value info = graph_.values[sum];
    const ValueId term = add_activation(graph_, info.type, info.role, info.layer);
    graph_.values[term].category = info.category;
    graph_.values[sum].view_of = term;
    graph_.values[sum].role += ".sum";
    node.outputs[0] = term;
    sums_.insert({n, sum_of(term, node.layer)});
  }

  GraphNode sum_of(ValueId value, LayerId layer) const {
    return {all_reduce_op({&graph_.values[value].type, 1}, group_), {value}, {}, layer, Phase::forward};
  }

  void cut_head(std::size_t n, const AxisCut& rows, std::int64_t first) {
    GraphNode& node = graph_.nodes[n];
    if (node.inputs.size() > 2) cut_parameter(node.inputs[2], rows);
    std::map<ValueId, ValueId> shared;
    share_input(node, shared);
    const ValueId logits = node.outputs[0];
    graph_.values[logits].type.shape[-1] = graph_.values[node.inputs[1]].type.shape[0];
    resize_linear(node);
    const auto loss = std::find_if(graph_.nodes.begin(), graph_.nodes.end(), [&](const GraphNode& each) {
      return each.op.kind == OpKind::cross_entropy && each.inputs[0] == logits;
    });
    require_internal(loss != graph_.nodes.end(), "a loss reads the logits of a head");
    replace_loss(static_cast<std::size_t>(loss - graph_.nodes.begin()), rows.sections.front(), first);
  }

  void replace_loss(std::size_t n, std::int64_t num_classes, std::int64_t first) {
    const GraphNode node = graph_.nodes[n];
    const auto& whole = attributes_of<CrossEntropyAttributes>(node.op);
    const ValueId logits = node.inputs[0], targets = node.inputs[1], loss_statistics = node.inputs[2];
    const Op find = class_statistics_op(graph_.values[logits].type, graph_.values[targets].type,
                                        {.ranks = group_,
                                         .place = place_,
                                         .first_class = first,
                                         .all_classes = num_classes,
                                         .label_smoothing = whole.label_smoothing,
                                         .ignore_index = whole.ignore_index});
    const Op order = class_order_op(find);
    const ValueId statistics = add_activation(graph_, find.outputs[0], "class_statistics", node.layer);
    const ValueId places = add_activation(graph_, order.outputs[0], "class_order", node.layer);
    replaced_[n] = {{find, {logits, targets}, {statistics}, node.layer, Phase::forward},
                    sum_of(statistics, node.layer),
                    {order, {logits, targets, statistics}, {places}, node.layer, Phase::forward},
                    sum_of(places, node.layer),
                    {cross_entropy_of_parts_op(find),
                     {logits, targets, statistics, places, loss_statistics},
                     {},
                     node.layer,
                     Phase::forward}};
  }

  Graph& graph_;
  const RankGroup group_;
  const std::int64_t place_;
  std::map<std::size_t, GraphNode> sums_;                   // by the node that makes their terms
  std::map<std::size_t, std::vector<GraphNode>> replaced_;  // by node
};

/// What is cut of a graph.
struct LayerCuts {
  std::vector<ClassCut> classes;
  std::vector<LayerRegion> regions;

  LayerCuts(const Graph& forward, const Experiment& experiment, const DataDescription& data) {
    const std::int64_t num_ranks = experiment.parallel.tensor;
    classes = find_class_cuts(forward, num_ranks, can_cut_loss(experiment, data));
    regions = find_layer_regions(forward, num_ranks, classes);
  }

  bool are_none() const { return classes.empty() && regions.empty(); }

  /// The parameters, by their numbers; a head's in its own way.
  std::set<std::pair<std::int32_t, bool>> parameters(const Graph& forward) const {
    std::set<std::pair<std::int32_t, bool>> found;
    for (const ClassCut& cut : classes) found.insert({cut.parameter, cut.head.has_value()});
    for (const LayerRegion& region : regions)
      for (const auto* const nodes : {&region.starts, &region.ends})
        for (const std::size_t n : *nodes) found.insert({weight_of(forward, n), false});
    return found;
  }

  /// Leaves what is among `cut`: where training cannot cut a layer, for a dropout, an evaluation does not.
  void keep(const Graph& forward, const std::set<std::pair<std::int32_t, bool>>& cut) {
    std::erase_if(classes, [&](const ClassCut& each) {
      return !cut.contains({each.parameter, each.head.has_value()});
    });
    std::erase_if(regions, [&](const LayerRegion& region) {
      return !cut.contains({weight_of(forward, region.starts.front()), false});
    });
  }

 private:
  static std::int32_t weight_of(const Graph& forward, std::size_t linear) {
    return forward.values[forward.nodes[linear].inputs[1]].parameter;
  }
};

}  // namespace

void cut_layers(Graph& forward, const Experiment& experiment, const DataDescription& data) {
  const RankLayout ranks = rank_layout(experiment.parallel);
  if (ranks.num_tensor == 1) return;
  if (experiment.memory.moments == MomentStorage::eight_bit || !experiment.memory.master_weights)
    throw ConfigError("parallel.tensor takes moments and master weights in f32");
  LayerCuts cuts(forward, experiment, data);
  if (forward.mode == GraphMode::evaluation) {
    const std::int64_t batch_size = experiment.train.batch_size.number().value_or(forward.batch_size);
    const Graph training = build_graph(experiment, data, batch_size, GraphMode::training);
    const auto cut = LayerCuts(training, experiment, data).parameters(training);
    cuts.keep(forward, cut);
    require_internal(cuts.parameters(forward) == cut, "an evaluation cuts what training does");
  }
  if (cuts.are_none())
    throw ConfigError(
        "parallel.tensor: nothing of the model can be cut: it takes linear layers with an activation or attention "
        "between them, or an embedding; set parallel.tensor: 1");
  LayerCutter cutter(forward, ranks);
  for (const LayerRegion& region : cuts.regions) cutter.cut(region);
  for (const ClassCut& cut : cuts.classes) cutter.cut(cut);
  cutter.finish();
  cut_rows(forward, ranks);
}

}  // namespace trainer
