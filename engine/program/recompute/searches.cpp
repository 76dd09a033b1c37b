#include "engine/program/recompute/searches.h"

#include <bit>

namespace trainer {
namespace {

void append_numbers(std::vector<std::int64_t>& key, const std::vector<std::int32_t>& numbers) {
  key.push_back(static_cast<std::int64_t>(numbers.size()));
  key.insert(key.end(), numbers.begin(), numbers.end());
}

/// Every number of the problem, so that no two problems share a key.
std::vector<std::int64_t> key_of_search(const RecomputeProblem& problem, const std::vector<std::int32_t>& start) {
  std::vector<std::int64_t> key = {problem.num_forward, problem.base_bytes,
                                   static_cast<std::int64_t>(problem.nodes.size())};
  for (const RecomputeProblem::Node& node : problem.nodes) {
    key.insert(key.end(), {std::bit_cast<std::int64_t>(node.time), std::bit_cast<std::int64_t>(node.rerun_time),
                           node.workspace_bytes, node.can_rerun ? 1 : 0});
    for (const auto* operands : {&node.inputs, &node.outputs, &node.rerun_inputs}) append_numbers(key, *operands);
    key.push_back(static_cast<std::int64_t>(node.take_overs.size()));
    for (const RecomputeProblem::Node::TakeOver& take_over : node.take_overs)
      key.insert(key.end(), {take_over.output, take_over.input});
  }
  for (const RecomputeProblem::Value& value : problem.values)
    key.insert(key.end(),
               {value.num_bytes, (value.is_given ? 1 : 0) + (value.is_result ? 2 : 0) + (value.is_pinned ? 4 : 0)});
  append_numbers(key, start);
  return key;
}

}  // namespace

const std::vector<RecomputeOrder>& RecomputeSearches::orders(const RecomputeProblem& problem,
                                                             const std::vector<std::int32_t>& start) {
  const auto [entry, is_new] = found_.try_emplace(key_of_search(problem, start));
  if (is_new) {
    entry->second = search_orders(problem, start);
    num_nodes_searched_ += static_cast<std::int64_t>(problem.nodes.size());
  }
  return entry->second;
}

}  // namespace trainer
