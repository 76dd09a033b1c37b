#include "engine/program/recompute/measure.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"

namespace trainer {

OrderMeter::OrderMeter(const RecomputeProblem& problem)
    : problem_(problem),
      has_producer_(problem.values.size(), false),
      num_runs_(problem.nodes.size(), 0),
      is_read_later_(problem.values.size(), 0),
      last_read_by_(problem.values.size(), 0) {
  for (const RecomputeProblem::Node& node : problem.nodes)
    for (std::int32_t output : node.outputs) has_producer_[output] = true;
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    const RecomputeProblem::Value& value = problem.values[v];
    if (!has_producer_[v] && !value.is_given) source_bytes_ += value.num_bytes;
    released_bytes_.push_back(value.is_result ? 0 : value.num_bytes);
  }
  for (const RecomputeProblem::Node& node : problem.nodes) {
    first_runs_.push_back(run_of(node, false));
    further_runs_.push_back(run_of(node, true));
  }
}

OrderMeter::Run OrderMeter::run_of(const RecomputeProblem::Node& node, bool is_rerun) {
  const auto num_operands = [&] { return static_cast<std::int32_t>(operands_.size()); };
  const auto num_rules = [&] { return static_cast<std::int32_t>(rules_.size()); };
  Run run;
  run.time = is_rerun && node.rerun_time >= 0 ? node.rerun_time : node.time;
  run.reads.begin = num_operands();
  for (std::int32_t input : is_rerun && !node.rerun_inputs.empty() ? node.rerun_inputs : node.inputs)
    if (!problem_.values[input].is_given) operands_.push_back(input);
  run.reads.end = run.makes.begin = num_operands();
  run.take_overs.begin = num_rules();
  for (std::int32_t output : node.outputs) {
    const RecomputeProblem::Value& value = problem_.values[output];
    if (value.is_given || (is_rerun && (value.is_pinned || value.is_result))) continue;
    operands_.push_back(output);
    if (value.is_result) continue;
    for (const RecomputeProblem::Node::TakeOver& rule : node.take_overs) {
      const RecomputeProblem::Value& input = problem_.values[rule.input];
      // What no node makes is the batch: it keeps its memory and its category.
      const bool can_be_taken = !input.is_given && !input.is_result && has_producer_[rule.input];
      if (rule.output == output && can_be_taken) rules_.push_back(rule);
    }
  }
  run.makes.end = num_operands();
  run.take_overs.end = num_rules();
  return run;
}

/// Of what the position that is walked reads for the last time: how much the outputs take over. Takes from
/// `made_bytes` what they need not be given for that.
std::int64_t OrderMeter::taken_over_bytes(const Run& run, std::int64_t& made_bytes) const {
  taken_.clear();
  std::int64_t taken_bytes = 0;
  std::int32_t served = -1;
  for (std::int32_t r = run.take_overs.begin; r < run.take_overs.end; ++r) {
    const auto [output, input] = rules_[r];
    if (output == served || last_read_by_[input] != num_walked_) continue;
    if (std::find(taken_.begin(), taken_.end(), input) != taken_.end()) continue;
    taken_.push_back(input);
    served = output;
    taken_bytes += problem_.values[input].num_bytes;
    made_bytes -= problem_.values[output].num_bytes;
  }
  return taken_bytes;
}

/// Fills num_runs_; returns the time of further runs.
double OrderMeter::count_runs(const std::vector<std::int32_t>& nodes) {
  std::fill(num_runs_.begin(), num_runs_.end(), 0);
  double time = 0;
  for (const std::int32_t n : nodes) {
    require_internal(n >= 0 && n < static_cast<std::int32_t>(problem_.nodes.size()), "an order names nodes");
    if (num_runs_[n]++ == 0) continue;
    require_internal(problem_.nodes[n].can_rerun, "only what can run again is run again");
    time += further_runs_[n].time;
  }
  return time;
}

/// What is still awaited at the start must be there.
void OrderMeter::forget_reads() {
  for (std::size_t v = 0; v < is_read_later_.size(); ++v) {
    require_internal(!is_read_later_[v] || !has_producer_[v], "a node reads what has been computed");
    is_read_later_[v] = 0;
  }
}

/// From behind a run to before it: makes of `held_bytes` what is held before it, and returns what is held while it
/// runs, save its workspace.
std::int64_t OrderMeter::step_back(const Run& run, std::int64_t& held_bytes) {
  ++num_walked_;
  std::int64_t made_bytes = 0;
  for (std::int32_t o = run.makes.begin; o < run.makes.end; ++o) {
    const std::int32_t output = operands_[o];
    made_bytes += problem_.values[output].num_bytes;
    if (!is_read_later_[output]) held_bytes += released_bytes_[output];
    is_read_later_[output] = 0;
  }
  for (std::int32_t r = run.reads.begin; r < run.reads.end; ++r) {
    const std::int32_t input = operands_[r];
    if (is_read_later_[input]) continue;
    is_read_later_[input] = 1;
    last_read_by_[input] = num_walked_;
    held_bytes += released_bytes_[input];
  }
  if (run.take_overs.begin != run.take_overs.end) held_bytes -= taken_over_bytes(run, made_bytes);
  const std::int64_t running_bytes = held_bytes;
  held_bytes -= made_bytes;
  return running_bytes;
}

/// From the last node to the first, which meets the last read of a run's value before anything else of it. What is held
/// is counted from what the end holds, which is known at the start only.
OrderMeter::Figures OrderMeter::walk(const std::vector<std::int32_t>& nodes, std::vector<Step>* steps) {
  Figures figures;
  figures.recompute_time = count_runs(nodes);
  if (steps != nullptr) steps->resize(nodes.size());
  std::int64_t held_bytes = 0, most_running_bytes = 0;
  bool is_any = false;
  for (std::size_t p = nodes.size(); p-- > 0;) {
    const std::int32_t n = nodes[p];
    const std::int64_t after_bytes = held_bytes;
    const std::int64_t running_bytes = step_back(--num_runs_[n] > 0 ? further_runs_[n] : first_runs_[n], held_bytes) +
                                       problem_.nodes[n].workspace_bytes;
    most_running_bytes = is_any ? std::max(most_running_bytes, running_bytes) : running_bytes;
    is_any = true;
    if (steps != nullptr) (*steps)[p] = {running_bytes, after_bytes};
  }
  forget_reads();
  const std::int64_t start_bytes = problem_.base_bytes + source_bytes_;
  const std::int64_t end_bytes = start_bytes - held_bytes;
  figures.peak_bytes = is_any ? std::max(start_bytes, most_running_bytes + end_bytes) : start_bytes;
  if (steps != nullptr)
    for (Step& step : *steps) step = {step.running_bytes + end_bytes, step.after_bytes + end_bytes};
  return figures;
}

OrderMeter::Figures OrderMeter::measure_stages(const std::vector<std::int32_t>& nodes,
                                               std::vector<std::int64_t>& stage_bytes) {
  count_runs(nodes);
  stage_bytes.clear();
  Figures figures;
  std::int64_t held_bytes = 0;
  for (std::size_t p = nodes.size(); p-- > 0;) {
    const std::int32_t n = nodes[p];
    const bool is_further = --num_runs_[n] > 0;
    const Run& run = is_further ? further_runs_[n] : first_runs_[n];
    if (is_further) {
      const auto is_read = [&](std::int32_t output) { return is_read_later_[output] != 0; };
      if (std::none_of(operands_.begin() + run.makes.begin, operands_.begin() + run.makes.end, is_read)) continue;
      figures.recompute_time += run.time;
    }
    const std::int64_t running_bytes = step_back(run, held_bytes) + problem_.nodes[n].workspace_bytes;
    if (is_further)
      stage_bytes.back() = std::max(stage_bytes.back(), running_bytes);
    else
      stage_bytes.push_back(running_bytes);
  }
  forget_reads();
  const std::int64_t start_bytes = problem_.base_bytes + source_bytes_;
  const std::int64_t end_bytes = start_bytes - held_bytes;
  figures.peak_bytes = start_bytes;
  for (std::int64_t& bytes : stage_bytes) {
    bytes += end_bytes;
    figures.peak_bytes = std::max(figures.peak_bytes, bytes);
  }
  std::reverse(stage_bytes.begin(), stage_bytes.end());
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
