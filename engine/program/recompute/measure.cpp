#include "engine/program/recompute/measure.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"

namespace trainer {

OrderMeter::OrderMeter(const RecomputeProblem& problem)
    : problem_(problem), has_producer_(problem.values.size(), false), num_runs_(problem.nodes.size(), 0) {
  for (const RecomputeProblem::Node& node : problem.nodes)
    for (std::int32_t output : node.outputs) has_producer_[output] = true;
  for (std::size_t v = 0; v < problem.values.size(); ++v)
    if (!has_producer_[v] && !problem.values[v].is_given) source_bytes_ += problem.values[v].num_bytes;
}

const std::vector<std::int32_t>& OrderMeter::reads_of(std::int32_t node, bool is_rerun) const {
  const RecomputeProblem::Node& info = problem_.nodes[node];
  return is_rerun && !info.rerun_inputs.empty() ? info.rerun_inputs : info.inputs;
}

namespace {

/// Whether a run makes this output: a further one leaves alone what is never computed again.
bool is_made(const RecomputeProblem::Value& value, bool is_rerun) {
  return !value.is_given && !(is_rerun && (value.is_pinned || value.is_result));
}

}  // namespace

/// Fills last_read_. Copies are numbered as they are made: the sources first, then each run's outputs.
void OrderMeter::find_last_reads(const std::vector<std::int32_t>& nodes) {
  std::fill(num_runs_.begin(), num_runs_.end(), 0);
  newest_copy_.assign(problem_.values.size(), -1);
  last_read_.clear();
  for (std::size_t v = 0; v < problem_.values.size(); ++v) {
    if (has_producer_[v] || problem_.values[v].is_given) continue;
    newest_copy_[v] = static_cast<std::int32_t>(last_read_.size());
    last_read_.push_back(-1);
  }
  for (std::size_t p = 0; p < nodes.size(); ++p) {
    const std::int32_t n = nodes[p];
    require_internal(n >= 0 && n < static_cast<std::int32_t>(problem_.nodes.size()), "an order names nodes");
    const bool is_rerun = num_runs_[n]++ > 0;
    require_internal(!is_rerun || problem_.nodes[n].can_rerun, "only what can run again is run again");
    for (std::int32_t input : reads_of(n, is_rerun)) {
      if (problem_.values[input].is_given) continue;
      require_internal(newest_copy_[input] >= 0, "a node reads what has been computed");
      last_read_[newest_copy_[input]] = static_cast<std::int64_t>(p);
    }
    for (std::int32_t output : problem_.nodes[n].outputs) {
      if (!is_made(problem_.values[output], is_rerun)) continue;
      newest_copy_[output] = static_cast<std::int32_t>(last_read_.size());
      last_read_.push_back(-1);
    }
  }
}

/// Whether `output` takes over the memory of what `node` reads for the last time; then notes that in taken_.
bool OrderMeter::takes_over(const RecomputeProblem::Node& node, std::int32_t output, std::int64_t position) {
  if (problem_.values[output].is_result) return false;
  for (const RecomputeProblem::Node::TakeOver& rule : node.take_overs) {
    if (rule.output != output) continue;
    const RecomputeProblem::Value& input = problem_.values[rule.input];
    // What no node makes is the batch: it keeps its memory and its category.
    if (input.is_given || input.is_result || !has_producer_[rule.input]) continue;
    const std::int32_t copy = newest_copy_[rule.input];
    if (copy < 0 || last_read_[copy] != position) continue;
    if (std::find(taken_.begin(), taken_.end(), rule.input) != taken_.end()) continue;
    taken_.push_back(rule.input);
    return true;
  }
  return false;
}

OrderMeter::Figures OrderMeter::walk(const std::vector<std::int32_t>& nodes, std::vector<Step>* steps) {
  find_last_reads(nodes);
  std::fill(num_runs_.begin(), num_runs_.end(), 0);
  newest_copy_.assign(problem_.values.size(), -1);
  std::int32_t num_copies = 0;
  for (std::size_t v = 0; v < problem_.values.size(); ++v)
    if (!has_producer_[v] && !problem_.values[v].is_given) newest_copy_[v] = num_copies++;

  if (steps != nullptr) steps->assign(nodes.size(), {});
  std::int64_t held_bytes = problem_.base_bytes + source_bytes_;
  Figures figures;
  figures.peak_bytes = held_bytes;
  for (std::size_t p = 0; p < nodes.size(); ++p) {
    const RecomputeProblem::Node& node = problem_.nodes[nodes[p]];
    const auto position = static_cast<std::int64_t>(p);
    const bool is_rerun = num_runs_[nodes[p]]++ > 0;
    if (is_rerun) figures.recompute_time += node.rerun_time < 0 ? node.time : node.rerun_time;

    taken_.clear();
    for (std::int32_t output : node.outputs) {
      const RecomputeProblem::Value& value = problem_.values[output];
      if (is_made(value, is_rerun) && !takes_over(node, output, position)) held_bytes += value.num_bytes;
    }
    const std::int64_t running_bytes = held_bytes + node.workspace_bytes;
    figures.peak_bytes = std::max(figures.peak_bytes, running_bytes);

    for (std::int32_t input : reads_of(nodes[p], is_rerun)) {
      const RecomputeProblem::Value& value = problem_.values[input];
      if (value.is_given || value.is_result || last_read_[newest_copy_[input]] != position) continue;
      if (std::find(taken_.begin(), taken_.end(), input) == taken_.end()) held_bytes -= value.num_bytes;
    }
    for (std::int32_t output : node.outputs) {
      const RecomputeProblem::Value& value = problem_.values[output];
      if (!is_made(value, is_rerun)) continue;
      newest_copy_[output] = num_copies++;
      if (!value.is_result && last_read_[newest_copy_[output]] < 0) held_bytes -= value.num_bytes;
    }
    if (steps != nullptr) (*steps)[p] = {running_bytes, held_bytes};
  }
  return figures;
}

OrderMeter::Figures OrderMeter::measure(const std::vector<std::int32_t>& nodes) { return walk(nodes, nullptr); }

OrderMeter::Figures OrderMeter::measure(const std::vector<std::int32_t>& nodes, std::vector<Step>& steps) {
  return walk(nodes, &steps);
}

RecomputeOrder measure_order(const RecomputeProblem& problem, std::vector<std::int32_t> nodes) {
  const OrderMeter::Figures figures = OrderMeter(problem).measure(nodes);
  return {std::move(nodes), figures.peak_bytes, figures.recompute_time};
}

}  // namespace trainer
