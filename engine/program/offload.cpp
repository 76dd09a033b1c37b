#include "engine/program/offload.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/graph/layer_pattern.h"
#include "engine/ops/offload.h"

namespace trainer {
namespace {

/// One value's way out and back, by nodes of the graph as it was.
struct Journey {
  ValueId value = -1;
  std::int64_t made_by = -1;              ///< the last node that writes it
  std::int64_t last_forward_read = -1;    ///< made_by where nothing reads it there
  std::int64_t first_backward_read = -1;  ///< of a phase behind the forward pass
};

class OffloadPass {
 public:
  OffloadPass(Graph& graph, const OffloadOptions& options)
      : graph_(graph), options_(options), num_nodes_(static_cast<std::int64_t>(graph.nodes.size())) {}

  void run() {
    const std::vector<bool> matching =
        matching_layers(options_.patterns, graph_.layers, "memory.offload", options_.location);
    behind_.resize(graph_.nodes.size());
    before_.resize(graph_.nodes.size());
    std::set<ValueId> sent;  // to another stage, which happens behind all of its segment
    for (const GraphNode& node : graph_.nodes)
      if (node.op.kind == OpKind::send) sent.insert(root(node.inputs[0]));
    for (const Journey& journey : find_journeys()) {
      const Value& value = graph_.values[journey.value];
      const bool is_named = value.layer != no_layer && matching[value.layer] && !sent.contains(journey.value);
      if (is_named && is_kept_activation(journey.value) && is_long(journey)) add(journey);
    }
    insert_nodes();
  }

 private:
  ValueId root(ValueId value) const {
    while (graph_.values[value].view_of >= 0) value = graph_.values[value].view_of;
    return value;
  }

  /// In the order in which the values are made.
  std::vector<Journey> find_journeys() const {
    std::vector<Journey> of_value(graph_.values.size());
    std::vector<ValueId> made;
    for (std::int64_t n = 0; n < num_nodes_; ++n) {
      const GraphNode& node = graph_.nodes[n];
      const bool is_forward = node.phase == Phase::forward;
      for (const ValueId operand : node.inputs) {
        Journey& journey = of_value[root(operand)];
        if (is_forward) journey.last_forward_read = n;
        // Ranks add up where terms lie: until then it is not what the backward pass reads.
        if (is_forward && node.op.kind == OpKind::all_reduce) journey.made_by = n;
        if (!is_forward && journey.first_backward_read < 0) journey.first_backward_read = n;
      }
      for (const ValueId output : node.outputs) {
        if (!is_forward) continue;
        of_value[output] = {.value = output, .made_by = n, .last_forward_read = n};
        made.push_back(output);
      }
    }
    std::vector<Journey> journeys;
    journeys.reserve(made.size());
    for (const ValueId value : made) journeys.push_back(of_value[value]);
    return journeys;
  }

  bool is_kept_activation(ValueId id) const {
    const Value& value = graph_.values[id];
    return value.category == Category::activation && value.parameter < 0 && value.view_of < 0 &&
           value.type.num_bytes() >= options_.least_bytes;
  }

  bool is_long(const Journey& journey) const {
    const std::int64_t away = journey.first_backward_read - journey.last_forward_read - 2 * options_.nodes_beside_copy;
    return journey.first_backward_read >= 0 && away >= options_.least_nodes_away;
  }

  void add(const Journey& journey) {
    const Value value = graph_.values[journey.value];
    const std::int64_t beside = options_.nodes_beside_copy;
    const OffloadAttributes start{.slot = num_slots_}, finish{.slot = num_slots_, .finish = true};
    ++num_slots_;
    const Phase phase = graph_.nodes[journey.first_backward_read].phase;
    const ValueId fetched = add_fetched(value);
    behind_[journey.made_by].starts.push_back(
        {offload_op(value.type, start), {journey.value}, {}, value.layer, Phase::forward});
    behind_[journey.last_forward_read + beside].finishes.push_back(
        {offload_op(value.type, finish), {journey.value}, {}, value.layer, Phase::forward});
    before_[journey.first_backward_read - beside].starts.push_back(
        {fetch_op(value.type, start), {}, {fetched}, value.layer, phase});
    before_[journey.first_backward_read].finishes.push_back(
        {fetch_op(value.type, finish), {fetched}, {}, value.layer, phase});
    for (std::int64_t n = journey.first_backward_read; n < num_nodes_; ++n) {
      for (ValueId& operand : graph_.nodes[n].inputs)
        if (root(operand) == journey.value) operand = counterpart(operand, journey.value, fetched);
    }
  }

  ValueId add_fetched(Value value) {
    value.role += ".fetched";
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  /// What is read in the place of `operand`, a value that went out or a view of it.
  ValueId counterpart(ValueId operand, ValueId gone, ValueId fetched) {
    if (operand == gone) return fetched;
    const auto known = views_.find(operand);
    if (known != views_.end()) return known->second;
    Value view = graph_.values[operand];
    view.view_of = fetched;
    const ValueId made = add_fetched(std::move(view));
    views_.emplace(operand, made);
    return made;
  }

  /// Copies begin before others are waited for, so that they go on meanwhile.
  struct Halves {
    std::vector<GraphNode> starts, finishes;
    void move_to(std::vector<GraphNode>& nodes) {
      std::move(starts.begin(), starts.end(), std::back_inserter(nodes));
      std::move(finishes.begin(), finishes.end(), std::back_inserter(nodes));
    }
  };

  void insert_nodes() {
    std::vector<GraphNode> nodes;
    nodes.reserve(graph_.nodes.size() + static_cast<std::size_t>(num_slots_) * 4);
    for (std::int64_t n = 0; n < num_nodes_; ++n) {
      before_[n].move_to(nodes);
      nodes.push_back(std::move(graph_.nodes[n]));
      behind_[n].move_to(nodes);
    }
    graph_.nodes = std::move(nodes);
  }

  Graph& graph_;
  const OffloadOptions& options_;
  const std::int64_t num_nodes_;
  std::int32_t num_slots_ = 0;
  std::vector<Halves> behind_, before_;  // by node of the graph as it was
  std::map<ValueId, ValueId> views_;     // of fetched values, by the view of what went out
};

}  // namespace

void apply_offload(Graph& graph, const OffloadOptions& options) {
  if (!options.patterns.empty()) OffloadPass(graph, options).run();
}

std::int64_t offload_bytes(const Program& program) {
  std::map<std::int32_t, std::int64_t> slots;
  for (const OpCall& call : program.calls) {
    if (call.op.kind != OpKind::offload) continue;
    std::int64_t& num_bytes = slots[attributes_of<OffloadAttributes>(call.op).slot];
    num_bytes = std::max(num_bytes, call.op.inputs[0].num_bytes());
  }
  std::int64_t sum = 0;
  for (const auto& [slot, num_bytes] : slots) sum += num_bytes;
  return sum;
}

}  // namespace trainer
