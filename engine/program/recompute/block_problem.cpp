#include "engine/program/recompute/block_problem.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace trainer {

HeldAnyway::HeldAnyway(const RecomputeProblem& problem, const std::vector<ForwardBlock>& blocks)
    : made_(problem.values.size(), -1), last_(problem.values.size(), absent) {
  const auto num_nodes = static_cast<std::int32_t>(problem.nodes.size());
  const std::int32_t forever = num_nodes;
  std::vector<std::int32_t> last_read(problem.values.size(), -1);
  std::vector<bool> is_made(problem.values.size(), false);
  std::vector<std::int32_t> block_end(problem.num_forward, 0);
  for (const ForwardBlock& block : blocks)
    for (std::int32_t n = block.first; n < block.end; ++n) block_end[n] = block.end_backward - 1;
  for (std::int32_t n = 0; n < num_nodes; ++n) {
    for (std::int32_t input : problem.nodes[n].inputs) last_read[input] = n;
    for (std::int32_t output : problem.nodes[n].outputs) {
      is_made[output] = true;
      made_[output] = n;
    }
  }
  // A further run reads at the latest in the backward part of its own block.
  for (std::int32_t n = 0; n < problem.num_forward; ++n)
    for (std::int32_t input : problem.nodes[n].rerun_inputs)
      if (problem.values[input].is_pinned) last_read[input] = std::max(last_read[input], block_end[n]);
  before_.assign(problem.nodes.size() + 2, 0);
  during_.assign(problem.nodes.size() + 2, 0);
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    const RecomputeProblem::Value& value = problem.values[v];
    const bool is_batch = static_cast<std::int32_t>(v) == blocks[0].output;
    const bool is_backward = made_[v] >= problem.num_forward;
    if (value.is_given || is_batch || (is_made[v] && !is_backward && !value.is_pinned && !value.is_result)) continue;
    const bool stays = value.is_result || (!is_made[v] && last_read[v] < 0);
    last_[v] = stays ? forever : std::max(made_[v], last_read[v]);
    during_[std::max(0, made_[v])] += value.num_bytes;
    during_[last_[v] + 1] -= value.num_bytes;
    before_[made_[v] + 1] += value.num_bytes;
    before_[last_[v] + 1] -= value.num_bytes;
  }
  for (std::size_t n = 1; n < before_.size(); ++n) {
    before_[n] += before_[n - 1];
    during_[n] += during_[n - 1];
  }
}

namespace {

/// Copies nodes into a problem that knows some of their values.
class ProblemCopy {
 public:
  ProblemCopy(const RecomputeProblem& from, RecomputeProblem& to) : from_(from), to_(to) {}

  std::int32_t add_value(std::int32_t value, bool is_result) {
    const auto [entry, is_new] = copies_.try_emplace(value, static_cast<std::int32_t>(to_.values.size()));
    if (is_new) {
      to_.values.push_back({});
      to_.values.back().num_bytes = from_.values[value].num_bytes;
      to_.values.back().is_result = is_result;
    }
    return entry->second;
  }
  std::int32_t find(std::int32_t value) const {
    const auto entry = copies_.find(value);
    return entry == copies_.end() ? -1 : entry->second;
  }
  std::vector<std::int32_t> known(const std::vector<std::int32_t>& values) const {
    std::vector<std::int32_t> copies;
    for (std::int32_t value : values)
      if (const std::int32_t copy = find(value); copy >= 0) copies.push_back(copy);
    return copies;
  }
  void add_node(std::int32_t n) {
    const RecomputeProblem::Node& node = from_.nodes[n];
    RecomputeProblem::Node copy;
    copy.time = node.time;
    copy.workspace_bytes = node.workspace_bytes;
    copy.rerun_time = node.rerun_time;
    copy.can_rerun = node.can_rerun;
    copy.inputs = known(node.inputs);
    copy.rerun_inputs = known(node.rerun_inputs);
    copy.outputs = known(node.outputs);
    for (const RecomputeProblem::Node::TakeOver& rule : node.take_overs) {
      const std::int32_t output = find(rule.output), input = find(rule.input);
      if (output >= 0 && input >= 0) copy.take_overs.push_back({output, input});
    }
    to_.nodes.push_back(std::move(copy));
  }

 private:
  const RecomputeProblem& from_;
  RecomputeProblem& to_;
  std::unordered_map<std::int32_t, std::int32_t> copies_;
};

}  // namespace

BlockProblem::BlockProblem(const RecomputeProblem& whole, const HeldAnyway& held_anyway, const ForwardBlock& block,
                           bool is_input_held, Turn turn_kind) {
  ProblemCopy copy(whole, problem);
  RecomputeProblem::Node start_node, turn_node, end_node;
  // Block 0 has its output from the start. A batch is nobody's output: it is never taken over.
  const std::int32_t first_value = block.input >= 0 ? block.input : (block.end == 0 ? block.output : -1);
  if (first_value >= 0) {
    const std::int32_t made = copy.add_value(first_value, false);
    const bool is_batch = block.first == 0;
    if (!is_batch) start_node.outputs = {made};
    num_start = is_batch ? 0 : 1;
    if (num_start > 0) problem.nodes.push_back(start_node);
  }
  input = block.input >= 0 ? copy.find(block.input) : -1;

  auto is_held_anyway = [&](std::int32_t value) { return whole.values[value].is_given || held_anyway.contains(value); };
  for (std::int32_t n = block.first; n < block.end; ++n)
    for (std::int32_t made : whole.nodes[n].outputs)
      if (!is_held_anyway(made)) copy.add_value(made, false);
  std::vector<std::int32_t> handed, outliving;
  auto hand = [&](std::int32_t value, bool is_read_by_rerun) {
    if (copy.find(value) >= 0 || !held_anyway.is_held_at(value, block.first_backward)) return;
    turn_node.outputs.push_back(copy.add_value(value, false));
    handed_bytes += whole.values[value].num_bytes;
    if (is_read_by_rerun || held_anyway.outlives(value, block.end_backward)) outliving.push_back(value);
  };
  // Forward nodes before their pinned values are known: those count with the held_anyway while they run first.
  for (std::int32_t n = block.first; n < block.end; ++n) copy.add_node(n);
  for (std::int32_t n = block.first; n < block.end; ++n)
    for (std::int32_t read : whole.nodes[n].rerun_inputs)
      if (whole.values[read].is_pinned) hand(read, true);
  for (std::int32_t n = block.first_backward; n < block.end_backward; ++n)
    for (std::int32_t read : whole.nodes[n].inputs) hand(read, false);
  for (std::int32_t n = block.first; n < block.end; ++n)
    problem.nodes[num_start + n - block.first].rerun_inputs = copy.known(whole.nodes[n].rerun_inputs);

  output = block.output >= 0 ? copy.find(block.output) : -1;
  if (output >= 0 && turn_kind == Turn::far) turn_node.inputs = {output};
  turn = static_cast<std::int32_t>(problem.nodes.size());
  problem.nodes.push_back(turn_node);
  problem.num_forward = turn + 1;
  problem.base_bytes = held_anyway.bytes_before(block.first_backward) - handed_bytes;

  for (std::int32_t n = block.first_backward; n < block.end_backward; ++n) {
    for (std::int32_t made : whole.nodes[n].outputs) {
      if (whole.values[made].is_given) continue;
      copy.add_value(made, whole.values[made].is_result);
      if (held_anyway.outlives(made, block.end_backward) && !whole.values[made].is_result) outliving.push_back(made);
    }
    copy.add_node(n);
  }
  end_node.inputs = copy.known(outliving);
  if (is_input_held && input >= 0) end_node.inputs.push_back(input);
  end = static_cast<std::int32_t>(problem.nodes.size());
  problem.nodes.push_back(end_node);
}

}  // namespace trainer
