#include "engine/program/recompute/order.h"

#include <algorithm>

namespace trainer {

std::vector<std::int32_t> without_unread(const RecomputeProblem& problem, const std::vector<std::int32_t>& order,
                                         std::int32_t first, std::int32_t end) {
  std::vector<std::int32_t> runs_before(problem.nodes.size(), 0);
  for (std::int32_t n : order) ++runs_before[n];
  std::vector<bool> is_read(problem.values.size(), false);  // by what stands behind, of the newest copy before it
  std::vector<std::int32_t> left;
  for (std::size_t p = order.size(); p-- > 0;) {
    const std::int32_t n = order[p];
    const RecomputeProblem::Node& node = problem.nodes[n];
    const bool is_rerun = --runs_before[n] > 0;
    bool is_needed = !is_rerun && (n < first || n >= end);
    for (std::int32_t output : node.outputs) {
      const RecomputeProblem::Value& value = problem.values[output];
      if (is_rerun && (value.is_pinned || value.is_result)) continue;
      is_needed = is_needed || is_read[output];
    }
    if (!is_needed) continue;
    left.push_back(n);
    for (std::int32_t output : node.outputs)
      if (!is_rerun || !problem.values[output].is_pinned) is_read[output] = false;
    const std::vector<std::int32_t>& reads = is_rerun && !node.rerun_inputs.empty() ? node.rerun_inputs : node.inputs;
    for (std::int32_t input : reads) is_read[input] = true;
  }
  std::reverse(left.begin(), left.end());
  return left;
}

}  // namespace trainer
