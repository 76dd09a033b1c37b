#include "tests/program/recompute/search_brute_force.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainer::recompute_problems {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// States are sets of held values at a number of first runs.
class StateSearch {
 public:
  StateSearch(const RecomputeProblem& problem, std::int64_t budget, double below)
      : problem_(problem), budget_(budget), below_(below) {
    bit_.assign(problem.values.size(), -1);
    last_backward_read_.assign(problem.values.size(), -1);
    std::vector<bool> is_made(problem.values.size(), false);
    const auto num_nodes = static_cast<std::int32_t>(problem.nodes.size());
    for (std::int32_t n = 0; n < num_nodes; ++n) {
      for (std::int32_t output : problem.nodes[n].outputs) {
        is_made[output] = true;
        if (n < problem.num_forward) bit_[output] = num_bits_++;
      }
      if (n < problem.num_forward) continue;
      for (std::int32_t input : problem.nodes[n].inputs) last_backward_read_[input] = n;
    }
    is_batch_.assign(problem.values.size(), false);
    for (std::size_t v = 0; v < problem.values.size(); ++v) {
      if (is_made[v] || problem.values[v].is_given) continue;
      is_batch_[v] = true;
      bit_[v] = num_bits_++;
      start_ |= 1U << bit_[v];
    }
  }

  double run() {
    const std::size_t num_nodes = problem_.nodes.size();
    reach(0, start_, 0);
    while (!queue_.empty()) {
      const auto [minus_time, state] = queue_.top();
      queue_.pop();
      const std::size_t done = state >> num_bits_;
      const auto held = static_cast<std::uint32_t>(state & ((std::size_t{1} << num_bits_) - 1));
      if (-minus_time > best_.at(state)) continue;
      if (done == num_nodes) return -minus_time;
      run_node(done, held, -minus_time, static_cast<std::int32_t>(done), false);
      const auto num_run = static_cast<std::int32_t>(std::min<std::size_t>(done, problem_.num_forward));
      for (std::int32_t n = 0; n < num_run; ++n)
        if (problem_.nodes[n].can_rerun) run_node(done, held, -minus_time, n, true);
    }
    return infinite;
  }

 private:
  void reach(std::size_t done, std::uint32_t held, double time) {
    const std::size_t state = (done << num_bits_) | held;
    if (time >= below_) return;
    const auto [best, is_new] = best_.try_emplace(state, time);
    if (!is_new && time >= best->second) return;
    best->second = time;
    queue_.emplace(-time, state);
  }

  std::int64_t bytes_of(std::uint32_t held) const {
    std::int64_t bytes = 0;
    for (std::size_t v = 0; v < bit_.size(); ++v)
      if (bit_[v] >= 0 && (held >> bit_[v] & 1U) != 0) bytes += problem_.values[v].num_bytes;
    return bytes;
  }
  /// What backward nodes before `done` made and is still to be read, or stays.
  std::int64_t gradient_bytes(std::size_t done) const {
    std::int64_t bytes = 0;
    for (std::size_t n = problem_.num_forward; n < done; ++n)
      for (std::int32_t output : problem_.nodes[n].outputs)
        if (problem_.values[output].is_result || last_backward_read_[output] >= static_cast<std::int64_t>(done))
          bytes += problem_.values[output].num_bytes;
    return bytes;
  }

  void run_node(std::size_t done, std::uint32_t held, double time, std::int32_t n, bool is_rerun) {
    const RecomputeProblem::Node& node = problem_.nodes[n];
    const auto& reads = is_rerun && !node.rerun_inputs.empty() ? node.rerun_inputs : node.inputs;
    std::vector<std::int32_t> may_drop, made;
    for (std::int32_t input : reads) {
      if (bit_[input] < 0) continue;
      if ((held >> bit_[input] & 1U) == 0) return;
      may_drop.push_back(input);
    }
    for (std::int32_t output : node.outputs) {
      if (is_rerun && problem_.values[output].is_pinned) continue;
      if (bit_[output] >= 0 && (held >> bit_[output] & 1U) != 0) return;  // held already: nothing to be won
      made.push_back(output);
      if (bit_[output] >= 0) may_drop.push_back(output);
    }
    for (std::uint32_t choice = 0; choice < (1U << may_drop.size()); ++choice) {
      std::uint32_t dropped = 0;
      for (std::size_t d = 0; d < may_drop.size(); ++d)
        if ((choice >> d & 1U) != 0) dropped |= 1U << bit_[may_drop[d]];
      std::int64_t bytes = problem_.base_bytes + bytes_of(held) + gradient_bytes(done) + node.workspace_bytes;
      std::vector<std::int32_t> taken;
      std::uint32_t after = held;
      for (std::int32_t output : made) {
        if (bit_[output] >= 0) after |= 1U << bit_[output];
        bool is_in_place = false;
        for (const auto& rule : node.take_overs) {
          if (rule.output != output || problem_.values[output].is_result || is_in_place || is_batch_[rule.input])
            continue;
          const bool dies =
              bit_[rule.input] >= 0 ? (dropped >> bit_[rule.input] & 1U) != 0 : last_backward_read_[rule.input] == n;
          if (!dies || std::find(taken.begin(), taken.end(), rule.input) != taken.end()) continue;
          taken.push_back(rule.input);
          is_in_place = true;
        }
        if (!is_in_place) bytes += problem_.values[output].num_bytes;
      }
      if (bytes > budget_) continue;
      const double cost = !is_rerun ? 0 : node.rerun_time < 0 ? node.time : node.rerun_time;
      reach(done + (is_rerun ? 0 : 1), after & ~dropped, time + cost);
    }
  }

  const RecomputeProblem& problem_;
  std::int64_t budget_;
  std::vector<int> bit_;  // by value: forward ones and the batch
  int num_bits_ = 0;
  std::vector<std::int64_t> last_backward_read_;
  std::vector<bool> is_batch_;
  std::uint32_t start_ = 0;
  double below_;
  std::unordered_map<std::size_t, double> best_;  // by state
  std::priority_queue<std::pair<double, std::size_t>> queue_;
};

}  // namespace

double least_recompute_time(const RecomputeProblem& problem, std::int64_t budget, double below) {
  return StateSearch(problem, budget, below).run();
}

std::map<std::int64_t, double> front_of_all_keep_sets(const RecomputeProblem& problem) {
  std::vector<std::int32_t> choices;
  for (std::int32_t n = 0; n < problem.num_forward; ++n)
    for (std::int32_t output : problem.nodes[n].outputs)
      if (problem.nodes[n].can_rerun && !problem.values[output].is_pinned) choices.push_back(output);
  std::map<std::int64_t, double> all;
  std::vector<bool> keep(problem.values.size(), true);
  for (std::uint32_t set = 0; set < (1U << choices.size()); ++set) {
    for (std::size_t c = 0; c < choices.size(); ++c) keep[choices[c]] = (set >> c & 1U) != 0;
    const RecomputeOrder order = measure_order(problem, order_of_kept(problem, keep));
    const auto [entry, is_new] = all.try_emplace(order.peak_bytes, order.recompute_time);
    if (!is_new) entry->second = std::min(entry->second, order.recompute_time);
  }
  std::map<std::int64_t, double> front;
  double least = infinite;
  for (const auto& [peak, time] : all) {
    if (time >= least) continue;
    front.emplace(peak, time);
    least = time;
  }
  return front;
}

}  // namespace trainer::recompute_problems
