#include "engine/program/recompute/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/diagnostic.h"
#include "engine/graph/layer_pattern.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Chains of cheap ops longer than this are cut: what is run again for one read should not be half of the model.
constexpr int longest_cheap_chain = 6;

using CostsLess = std::function<bool(std::span<const std::int32_t> others, std::int32_t value)>;

/// Chooses cheap forward values that need not be kept.
class CheapValues {
 public:
  CheapValues(const RecomputeProblem& problem, const Graph& graph, std::vector<bool>& keep, const CostsLess& costs_less)
      : problem_(problem), graph_(graph), keep_(keep), costs_less_(costs_less), producer_(problem.values.size(), -1) {
    for (std::int32_t n = 0; n < problem.num_forward; ++n)
      for (const std::int32_t output : problem.nodes[n].outputs) producer_[output] = n;
    is_crossing_.assign(problem.values.size(), false);
    for (std::size_t n = problem.num_forward; n < problem.nodes.size(); ++n)
      for (const std::int32_t input : problem.nodes[n].inputs) mark_crossing(input);
    for (std::size_t v = 0; v < problem.values.size(); ++v)
      if (problem.values[v].is_given || problem.values[v].is_pinned) is_crossing_[v] = true;
  }

  void drop() {
    for (std::int32_t n = 0; n < problem_.num_forward; ++n) {
      if (!is_cheap(n)) continue;
      for (const std::int32_t output : problem_.nodes[n].outputs)
        if (is_crossing_[output] && keep_[output] && !is_fixed(output)) consider(output);
    }
  }

 private:
  /// What the backward pass reads, or what is run again for it reads.
  void mark_crossing(std::int32_t value) {
    if (producer_[value] < 0 || is_crossing_[value]) return;
    is_crossing_[value] = true;
    if (keep_[value] || is_fixed(value)) return;
    for (const std::int32_t read : reads_of_rerun(producer_[value])) mark_crossing(read);
  }

  bool is_fixed(std::int32_t value) const {
    return problem_.values[value].is_given || problem_.values[value].is_pinned;
  }
  bool is_cheap(std::int32_t n) const {
    return problem_.nodes[n].can_rerun && definition_of(graph_.nodes[n].op.kind).is_cheap && !gathers_more(n);
  }
  /// Whether running it again takes more than what it makes: an embedding's table.
  bool gathers_more(std::int32_t n) const {
    if (!problem_.gathers_given) return false;
    std::int64_t gathered = 0, made = 0;
    for (const std::int32_t read : reads_of_rerun(n))
      if (problem_.values[read].is_given) gathered += problem_.values[read].num_bytes;
    for (const std::int32_t output : problem_.nodes[n].outputs) made += problem_.values[output].num_bytes;
    return gathered > made;
  }
  const std::vector<std::int32_t>& reads_of_rerun(std::int32_t n) const {
    const RecomputeProblem::Node& node = problem_.nodes[n];
    return node.rerun_inputs.empty() ? node.inputs : node.rerun_inputs;
  }

  /// Walks up from `value` to what is kept. False where the chain is too long.
  bool collect(std::int32_t value, int length) {
    if (length > longest_cheap_chain) return false;
    const std::int32_t n = producer_[value];
    run_again_.push_back(n);
    for (const std::int32_t read : reads_of_rerun(n)) {
      if (is_crossing_[read] && keep_[read]) continue;
      const bool again = producer_[read] >= 0 && !is_fixed(read) && is_cheap(producer_[read]);
      if (again || (producer_[read] >= 0 && !keep_[read])) {
        if (!again) return false;  // a product that is not kept: its scheme of checkpointing deals with it
        if (!collect(read, length + 1)) return false;
      } else if (std::find(also_kept_.begin(), also_kept_.end(), read) == also_kept_.end()) {
        also_kept_.push_back(read);
      }
    }
    return true;
  }

  /// Those of also_kept_.
  bool has_fewer_bytes(std::int32_t value) const {
    std::int64_t kept_bytes = 0;
    for (const std::int32_t other : also_kept_) kept_bytes += problem_.values[other].num_bytes;
    return kept_bytes < problem_.values[value].num_bytes;
  }

  void consider(std::int32_t value) {
    run_again_.clear();
    also_kept_.clear();
    if (!collect(value, 1)) return;
    if (costs_less_ ? !costs_less_(also_kept_, value) : !has_fewer_bytes(value)) return;
    is_crossing_[value] = false;
    keep_[value] = false;
    for (const std::int32_t n : run_again_)
      for (const std::int32_t output : problem_.nodes[n].outputs)
        if (!is_crossing_[output]) keep_[output] = false;
    for (const std::int32_t other : also_kept_) is_crossing_[other] = true;
  }

  const RecomputeProblem& problem_;
  const Graph& graph_;
  std::vector<bool>& keep_;
  const CostsLess& costs_less_;
  std::vector<std::int32_t> producer_;  // by value: the forward node; -1: none
  std::vector<bool> is_crossing_;       // by value: held from the forward to the backward pass
  std::vector<std::int32_t> run_again_, also_kept_;
};

/// Whether a node is a batch norm that took a residual block's sum: Note [Residual blocks].
bool takes_sum(const GraphNode& node) {
  const auto* const norm = std::get_if<BatchNorm2dAttributes>(&node.op.attributes);
  return norm != nullptr && norm->adds;
}

/// Layers of the forward pass in the order of their first nodes, but for the batch and the loss. A batch norm that took
/// a residual block's sum stands for both layers, so that segments end where they would without.
std::vector<std::int32_t> ordinal_of_layers(const Graph& graph, std::int32_t& num_layers) {
  std::vector<std::int32_t> ordinal(graph.layers.size(), -1);
  num_layers = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.phase != Phase::forward || node.layer == no_layer || node.op.outputs.empty()) continue;
    if (ordinal[node.layer] >= 0) continue;
    if (takes_sum(node)) ++num_layers;
    ordinal[node.layer] = num_layers++;
  }
  return ordinal;
}

/// Keeps what is read across the ends of segments of `length` layers, and all of the last segment, whose backward pass
/// comes next.
void keep_segments(const RecomputeProblem& problem, const Graph& graph, std::int64_t length, std::vector<bool>& keep) {
  std::int32_t num_layers = 0;
  const std::vector<std::int32_t> ordinal = ordinal_of_layers(graph, num_layers);
  const std::int64_t last_segment = (std::max(num_layers, 1) - 1) / length;
  std::vector<std::int64_t> segment_of_value(problem.values.size(), -1);
  for (std::int32_t n = 0; n < problem.num_forward; ++n) {
    const LayerId layer = graph.nodes[n].layer;
    const std::int64_t segment = layer == no_layer || ordinal[layer] < 0 ? last_segment : ordinal[layer] / length;
    for (const std::int32_t input : problem.nodes[n].inputs)
      if (segment_of_value[input] >= 0 && segment_of_value[input] != segment) keep[input] = true;
    for (const std::int32_t output : problem.nodes[n].outputs) {
      segment_of_value[output] = segment;
      keep[output] = segment == last_segment;
    }
  }
}

/// A batch norm that took a sum is the work of the sum's layer and of its own, that of its mean.
bool is_work_of(const std::vector<bool>& layers, const Graph& graph, const GraphNode& node) {
  const auto is_one = [&](LayerId layer) { return layer != no_layer && layers[layer]; };
  if (is_one(node.layer) || !takes_sum(node)) return is_one(node.layer);
  const bool finds_mean = node.op.kind == OpKind::batchnorm2d;
  return is_one(graph.values[finds_mean ? node.outputs[1] : node.inputs[1]].layer);
}

void drop_layers(const RecomputeProblem& problem, const Graph& graph, const CheckpointingConfig& config,
                 std::vector<bool>& keep) {
  const std::vector<bool> is_dropped =
      matching_layers(config.layers, graph.layers, "train.checkpointing.layers", config.location);
  for (std::int32_t n = 0; n < problem.num_forward; ++n) {
    if (!is_work_of(is_dropped, graph, graph.nodes[n])) continue;
    for (const std::int32_t output : problem.nodes[n].outputs) keep[output] = false;
  }
}

/// The order without a budget: what `checkpointing: off` does.
std::vector<std::int32_t> plain_order(const RecomputeProblem& problem, const Graph& graph, bool cheap) {
  std::vector<bool> keep(problem.values.size(), true);
  if (cheap) drop_cheap_values(problem, graph, keep);
  return order_of_kept(problem, keep);
}

std::vector<std::int32_t> order_within_budget(const RecomputeProblem& problem, const Graph& graph,
                                              const RecomputeOptions& options) {
  RecomputeFronts local;
  RecomputeFronts& fronts = options.fronts != nullptr ? *options.fronts : local;
  const auto [front, is_new] = fronts.by_batch_size.try_emplace(graph.batch_size);
  if (is_new) {
    const std::vector<std::int32_t> start = plain_order(problem, graph, options.cheap);
    front->second =
        fronts.searches != nullptr ? fronts.searches->orders(problem, start) : search_orders(problem, start);
  }
  const CheckpointingConfig& config = *options.checkpointing;
  if (const RecomputeOrder* order = fastest_within(front->second, config.budget)) return order->nodes;
  // What does not fit although everything is computed again is for the report to tell, with all other fixes.
  if (config.type == CheckpointingConfig::Type::automatic) return front->second.back().nodes;
  throw located_error(config.location,
                      fmt::format("a step holds at least {} however much is computed again, and the budget is {}",
                                  format_bytes(front->second.back().peak_bytes), format_bytes(config.budget)),
                      "a larger train.checkpointing.budget, or a smaller batch");
}

}  // namespace

void drop_cheap_values(const RecomputeProblem& problem, const Graph& graph, std::vector<bool>& keep,
                       const CostsLess& costs_less) {
  CheapValues(problem, graph, keep, costs_less).drop();
}

std::vector<bool> kept_values(const RecomputeProblem& problem, const Graph& graph, const RecomputeOptions& options) {
  using Type = CheckpointingConfig::Type;
  const CheckpointingConfig& config = *options.checkpointing;
  std::vector<bool> keep(problem.values.size(), true);
  if (config.type == Type::every) keep_segments(problem, graph, config.every, keep);
  if (config.type == Type::sqrt) {
    std::int32_t num_layers = 0;
    ordinal_of_layers(graph, num_layers);
    keep_segments(problem, graph, std::max<std::int64_t>(1, std::llround(std::sqrt(num_layers))), keep);
  }
  if (config.type == Type::layers) drop_layers(problem, graph, config, keep);
  if (options.cheap) drop_cheap_values(problem, graph, keep, options.costs_less);
  return keep;
}

std::vector<std::int32_t> recompute_order(const Graph& graph, const DeviceModel& device,
                                          const RecomputeOptions& options) {
  using Type = CheckpointingConfig::Type;
  const CheckpointingConfig& config = *options.checkpointing;
  if (config.type == Type::off && !options.cheap) return {};
  const RecomputeProblem problem = make_recompute_problem(graph, device, options);
  const bool has_budget = config.type == Type::budget || (config.type == Type::automatic && config.budget > 0);
  if (has_budget) return order_within_budget(problem, graph, options);
  return order_of_kept(problem, kept_values(problem, graph, options));
}

void apply_recompute(Graph& graph, const DeviceModel& device, const RecomputeOptions& options) {
  if (const std::vector<std::int32_t> order = recompute_order(graph, device, options); !order.empty())
    apply_order(graph, order);
}

}  // namespace trainer
