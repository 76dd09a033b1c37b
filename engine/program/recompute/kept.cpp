#include "engine/program/recompute/kept.h"

#include <algorithm>

namespace trainer {

KeptOrders::KeptOrders(const RecomputeProblem& problem)
    : problem_(problem), producer_(problem.values.size(), -1), is_free_(problem.values.size(), false) {
  for (std::int32_t n = 0; n < problem.num_forward; ++n) {
    for (std::int32_t output : problem.nodes[n].outputs) {
      const RecomputeProblem::Value& value = problem.values[output];
      producer_[output] = n;
      is_free_[output] = problem.nodes[n].can_rerun && !value.is_given && !value.is_pinned && !value.is_result;
    }
  }
  // Needed by the backward pass, or by a node that may run again for it: found against the order of the nodes.
  std::vector<bool> is_needed(problem.values.size(), false);
  const auto num_nodes = static_cast<std::int32_t>(problem.nodes.size());
  for (std::int32_t n = num_nodes - 1; n >= problem.num_forward; --n)
    for (std::int32_t input : problem.nodes[n].inputs) is_needed[input] = true;
  for (std::int32_t n = problem.num_forward - 1; n >= 0; --n) {
    const RecomputeProblem::Node& node = problem.nodes[n];
    bool may_rerun = false;
    for (std::int32_t output : node.outputs) may_rerun = may_rerun || (is_needed[output] && is_free_[output]);
    if (!may_rerun) continue;
    int num_free = 0;
    for (std::int32_t input : rerun_reads(n)) {
      is_needed[input] = true;
      num_free += is_free_[input] ? 1 : 0;
    }
    branches_ = branches_ || num_free > 1;
  }
  for (std::size_t v = 0; v < problem.values.size(); ++v)
    if (is_free_[v] && is_needed[v]) choices_.push_back(static_cast<std::int32_t>(v));
}

/// Appends the runs that make `value` again from what is there, in the order of the nodes.
void KeptOrders::compute_again(std::int32_t value, std::vector<std::int32_t>& order) {
  to_run_.clear();
  to_visit_.assign(1, value);
  while (!to_visit_.empty()) {
    const std::int32_t n = producer_[to_visit_.back()];
    to_visit_.pop_back();
    if (std::find(to_run_.begin(), to_run_.end(), n) != to_run_.end()) continue;
    to_run_.push_back(n);
    for (std::int32_t input : rerun_reads(n))
      if (!is_there_[input]) to_visit_.push_back(input);
  }
  std::sort(to_run_.begin(), to_run_.end());
  for (std::int32_t n : to_run_) {
    order.push_back(n);
    for (std::int32_t output : problem_.nodes[n].outputs) is_there_[output] = true;
  }
}

/// The same, what a node reads right before it.
void KeptOrders::compute_again_depth_first(std::int32_t value, bool last_first, std::vector<std::int32_t>& order) {
  to_run_.assign(1, producer_[value]);
  next_input_.assign(1, 0);
  while (!to_run_.empty()) {
    const std::int32_t n = to_run_.back();
    const std::vector<std::int32_t>& reads = rerun_reads(n);
    std::size_t& next = next_input_.back();
    if (next < reads.size()) {
      const std::int32_t input = reads[last_first ? reads.size() - 1 - next : next];
      ++next;
      if (is_there_[input]) continue;
      to_run_.push_back(producer_[input]);
      next_input_.push_back(0);
      continue;
    }
    to_run_.pop_back();
    next_input_.pop_back();
    order.push_back(n);
    for (std::int32_t output : problem_.nodes[n].outputs) is_there_[output] = true;
  }
}

void KeptOrders::order_of(const std::vector<bool>& keep, const std::vector<bool>& again, Sequence sequence,
                          std::vector<std::int32_t>& order) {
  order.clear();
  is_there_.assign(problem_.values.size(), true);
  for (std::size_t v = 0; v < problem_.values.size(); ++v) is_there_[v] = !is_free_[v] || keep[v];
  for (std::int32_t n = 0; n < problem_.num_forward; ++n) order.push_back(n);
  for (std::int32_t n = problem_.num_forward; n < static_cast<std::int32_t>(problem_.nodes.size()); ++n) {
    const std::size_t first = order.size();
    for (std::int32_t input : problem_.nodes[n].inputs) {
      if (is_there_[input]) continue;
      if (sequence == Sequence::by_node)
        compute_again(input, order);
      else
        compute_again_depth_first(input, sequence == Sequence::last_input_first, order);
    }
    if (!again.empty())
      for (std::size_t p = first; p < order.size(); ++p)
        for (std::int32_t output : problem_.nodes[order[p]].outputs)
          if (is_free_[output] && again[output]) is_there_[output] = false;
    order.push_back(n);
  }
}

std::vector<std::int32_t> order_of_kept(const RecomputeProblem& problem, const std::vector<bool>& keep) {
  std::vector<std::int32_t> order;
  KeptOrders(problem).order_of(keep, order);
  return order;
}

}  // namespace trainer
