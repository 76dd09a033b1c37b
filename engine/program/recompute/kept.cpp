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
    for (std::int32_t input : node.rerun_inputs.empty() ? node.inputs : node.rerun_inputs) is_needed[input] = true;
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
    const RecomputeProblem::Node& node = problem_.nodes[n];
    for (std::int32_t input : node.rerun_inputs.empty() ? node.inputs : node.rerun_inputs)
      if (!is_there_[input]) to_visit_.push_back(input);
  }
  std::sort(to_run_.begin(), to_run_.end());
  for (std::int32_t n : to_run_) {
    order.push_back(n);
    for (std::int32_t output : problem_.nodes[n].outputs) is_there_[output] = true;
  }
}

void KeptOrders::order_of(const std::vector<bool>& keep, std::vector<std::int32_t>& order) {
  order.clear();
  is_there_.assign(problem_.values.size(), true);
  for (std::size_t v = 0; v < problem_.values.size(); ++v) is_there_[v] = !is_free_[v] || keep[v];
  for (std::int32_t n = 0; n < problem_.num_forward; ++n) order.push_back(n);
  for (std::int32_t n = problem_.num_forward; n < static_cast<std::int32_t>(problem_.nodes.size()); ++n) {
    for (std::int32_t input : problem_.nodes[n].inputs)
      if (!is_there_[input]) compute_again(input, order);
    order.push_back(n);
  }
}

std::vector<std::int32_t> order_of_kept(const RecomputeProblem& problem, const std::vector<bool>& keep) {
  std::vector<std::int32_t> order;
  KeptOrders(problem).order_of(keep, order);
  return order;
}

}  // namespace trainer
