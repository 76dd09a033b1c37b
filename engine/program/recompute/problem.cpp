#include <algorithm>
#include <functional>
#include <utility>

#include "engine/memory/rounding.h"
#include "engine/ops/op_definition.h"
#include "engine/program/op_time.h"
#include "engine/program/recompute/recompute.h"

namespace trainer {
namespace {

void add_once(std::vector<std::int32_t>& values, ValueId value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

/// Ops that change state, end the forward pass, or are run by all ranks at once, run once.
bool can_rerun(const GraphNode& node) {
  return node.phase == Phase::forward && !node.op.outputs.empty() && !definition_of(node.op.kind).runs_once;
}

/// Sizes as the allocator rounds them.
RecomputeProblem::Node describe(const Graph& graph, const GraphNode& node, const DeviceModel& device,
                                const RecomputeOptions& options, const std::vector<bool>& is_gradient,
                                std::vector<RecomputeProblem::Value>& values) {
  RecomputeProblem::Node result;
  result.time = estimated_time(node.op);
  const std::int64_t workspace_bytes = device.workspace_bytes(node.op);
  if (workspace_bytes > 0) result.workspace_bytes = round_to_blocks(workspace_bytes);
  for (const ValueId input : node.inputs) add_once(result.inputs, root_of(graph, input));
  for (const ValueId output : node.outputs) add_once(result.outputs, output);
  const OpDefinition& definition = definition_of(node.op.kind);
  if (options.in_place) {
    for (const InPlace& rule : in_place_rules(node.op)) {
      const ValueId output = node.outputs[rule.output];
      const ValueId input = root_of(graph, node.inputs[rule.input]);
      const Value& from = graph.values[input];
      const bool is_possible = from.category != Category::input && from.parameter < 0 &&
                               from.type.num_bytes() == graph.values[output].type.num_bytes() && !is_gradient[output];
      if (is_possible) result.take_overs.push_back({output, input});
    }
  }
  result.can_rerun = can_rerun(node);
  if (definition.runs_once)
    for (const ValueId output : node.outputs) values[output].is_pinned = true;
  if (!result.can_rerun || definition.rerun == nullptr) return result;
  const Rerun rerun = definition.rerun(node.op);
  result.rerun_time = estimated_time(rerun.op);
  for (const int read : rerun.reads) {
    const ValueId value = read >= 0 ? root_of(graph, node.inputs[read]) : node.outputs[-1 - read];
    add_once(result.rerun_inputs, value);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const bool is_made = std::find(rerun.makes.begin(), rerun.makes.end(), static_cast<int>(i)) != rerun.makes.end();
    if (!is_made) values[node.outputs[i]].is_pinned = true;
  }
  return result;
}

/// Updates in the backward pass: a gradient is held until nothing reads its parameter any more, as the scheduler does.
void hold_gradients(const Graph& graph, RecomputeProblem& problem) {
  std::vector<std::int32_t> last_reader(graph.parameters.size(), -1), maker(graph.parameters.size(), -1);
  std::vector<std::int32_t> gradient_of(graph.values.size(), -1);
  for (std::size_t p = 0; p < graph.parameters.size(); ++p)
    if (graph.parameter_gradients[p] >= 0) gradient_of[graph.parameter_gradients[p]] = static_cast<std::int32_t>(p);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId input : graph.nodes[n].inputs)
      if (const std::int32_t p = graph.values[input].parameter; p >= 0) last_reader[p] = static_cast<std::int32_t>(n);
    for (const auto* operands : {&graph.nodes[n].inputs, &graph.nodes[n].outputs})
      for (const ValueId operand : *operands)
        if (gradient_of[operand] >= 0) maker[gradient_of[operand]] = static_cast<std::int32_t>(n);
  }
  for (std::size_t p = 0; p < maker.size(); ++p)
    if (maker[p] >= 0 && last_reader[p] > maker[p])
      add_once(problem.nodes[last_reader[p]].inputs, graph.parameter_gradients[p]);
}

/// What ranks add up, or send to another stage, is never made again; nor is what they gather where each of them finds a
/// budget of its own, for all gather in one order.
void keep_exchanged(const Graph& graph, const RecomputeOptions& options, RecomputeProblem& problem) {
  const bool may_differ =
      options.checkpointing != nullptr && options.checkpointing->type == CheckpointingConfig::Type::automatic;
  std::vector<bool> is_kept(graph.values.size(), false);
  for (const GraphNode& node : graph.nodes)
    if (node.phase == Phase::forward) {
      if (node.op.kind == OpKind::all_reduce)
        for (const ValueId sum : node.inputs) is_kept[root_of(graph, sum)] = true;
      if (node.op.kind == OpKind::send) is_kept[root_of(graph, node.inputs[0])] = true;
      const bool is_gathered = node.op.kind == OpKind::all_gather && may_differ;
      if (node.op.kind == OpKind::reduce_scatter || is_gathered) is_kept[root_of(graph, node.outputs[0])] = true;
    }
  for (RecomputeProblem::Node& node : problem.nodes)
    for (const std::int32_t output : node.outputs) {
      if (!is_kept[output]) continue;
      node.can_rerun = false;
      problem.values[output].is_pinned = true;
    }
}

}  // namespace

RecomputeProblem make_recompute_problem(const Graph& graph, const DeviceModel& device,
                                        const RecomputeOptions& options) {
  RecomputeProblem problem;
  problem.base_bytes = options.persistent_bytes;
  problem.gathers_given = options.gathers_weights;
  problem.values.resize(graph.values.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    problem.values[v].num_bytes = round_to_blocks(value.type.num_bytes());
    problem.values[v].is_given = value.parameter >= 0;
  }
  for (const ValueId given : {graph.loss_statistics, graph.metric_counts, graph.loss_scale})
    if (given >= 0) problem.values[given].is_given = true;
  std::vector<bool> is_gradient(graph.values.size(), false);
  for (const ValueId gradient : graph.parameter_gradients) {
    if (gradient < 0) continue;
    is_gradient[root_of(graph, gradient)] = true;
    RecomputeProblem::Value& value = problem.values[root_of(graph, gradient)];
    if (options.accumulates) problem.base_bytes += value.num_bytes;
    value.is_result = !options.accumulates && !options.updates_in_backward;
  }

  problem.nodes.reserve(graph.nodes.size());
  std::vector<bool> is_used(graph.values.size(), false);
  for (const GraphNode& node : graph.nodes) {
    problem.nodes.push_back(describe(graph, node, device, options, is_gradient, problem.values));
    for (const std::int32_t input : problem.nodes.back().inputs) is_used[input] = true;
    for (const std::int32_t output : problem.nodes.back().outputs) is_used[output] = true;
  }
  keep_exchanged(graph, options, problem);
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (!is_used[v]) problem.values[v].num_bytes = 0;
  if (options.updates_in_backward) hold_gradients(graph, problem);
  const auto first_backward = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                           [](const GraphNode& node) { return node.phase != Phase::forward; });
  problem.num_forward = static_cast<std::int32_t>(first_backward - graph.nodes.begin());
  return problem;
}

void apply_order(Graph& graph, const std::vector<std::int32_t>& order) {
  const std::vector<GraphNode> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  std::vector<bool> has_run(nodes.size(), false);
  std::vector<ValueId> newest(graph.values.size());
  for (std::size_t v = 0; v < newest.size(); ++v) newest[v] = static_cast<ValueId>(v);

  // A view of a value that was computed again is a view of the new one.
  const std::function<ValueId(ValueId)> resolve = [&](ValueId value) {
    const ValueId base = graph.values[value].view_of;
    if (base < 0 || newest[value] != value) return newest[value];
    const ValueId new_base = resolve(base);
    if (new_base == base) return value;
    Value view = graph.values[value];
    view.view_of = new_base;
    graph.values.push_back(std::move(view));
    newest[value] = static_cast<ValueId>(graph.values.size() - 1);
    return newest[value];
  };
  std::vector<std::vector<ValueId>> views_of(graph.values.size());
  for (std::size_t v = 0; v < newest.size(); ++v)
    if (graph.values[v].view_of >= 0)
      views_of[root_of(graph, static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));

  for (const std::int32_t position : order) {
    const GraphNode& node = nodes[position];
    GraphNode run = node;
    if (!has_run[position]) {
      has_run[position] = true;
      for (ValueId& input : run.inputs) input = resolve(input);
      graph.nodes.push_back(std::move(run));
      continue;
    }
    Rerun rerun{.op = node.op, .reads = {}, .makes = {}};
    if (const auto make = definition_of(node.op.kind).rerun; make != nullptr) {
      rerun = make(node.op);
    } else {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) rerun.reads.push_back(static_cast<int>(i));
      for (std::size_t i = 0; i < node.outputs.size(); ++i) rerun.makes.push_back(static_cast<int>(i));
    }
    run.op = rerun.op;
    run.phase = Phase::recompute;
    run.inputs.clear();
    run.outputs.clear();
    for (const int read : rerun.reads)
      run.inputs.push_back(resolve(read >= 0 ? node.inputs[read] : node.outputs[-1 - read]));
    for (const int made : rerun.makes) {
      const ValueId original = node.outputs[made];
      Value again = graph.values[original];
      again.role += ".again";
      graph.values.push_back(std::move(again));
      newest[original] = static_cast<ValueId>(graph.values.size() - 1);
      for (const ValueId view : views_of[original]) newest[view] = view;
      run.outputs.push_back(newest[original]);
    }
    graph.nodes.push_back(std::move(run));
  }
}

}  // namespace trainer
