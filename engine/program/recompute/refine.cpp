#include "engine/program/recompute/refine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/program/recompute/order.h"

namespace trainer {
namespace {

class Refinement {
 public:
  Refinement(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits)
      : problem_(problem), front_(front), visits_left_(max_visits), producer_(problem.values.size(), -1) {
    for (std::int32_t n = 0; n < problem.num_forward; ++n) {
      for (std::int32_t output : problem.nodes[n].outputs) {
        const RecomputeProblem::Value& value = problem.values[output];
        if (problem.nodes[n].can_rerun && !value.is_given && !value.is_pinned && !value.is_result)
          producer_[output] = n;
      }
    }
  }

  void run() {
    // Where several places hold as much, only several steps together help.
    constexpr int max_steps_together = 3;
    for (int depth = 1; depth <= max_steps_together; ++depth) {
      front_.forget_visits();
      while (visits_left_ > 0) {
        const std::optional<std::vector<std::int32_t>> order = front_.next_unvisited();
        if (!order.has_value()) break;
        hold_instead(*order);
        lower_peak(*order, depth);
      }
    }
  }

 private:
  /// Whether the order is now in the front, to be visited in its turn.
  bool offer(std::vector<std::int32_t>& order) {
    visits_left_ -= 2 * static_cast<std::int64_t>(order.size());
    order = without_unread(problem_, order);
    return front_.offer(order);
  }
  const std::vector<std::int32_t>& reads_of(std::int32_t node, bool is_rerun) const {
    const RecomputeProblem::Node& info = problem_.nodes[node];
    return is_rerun && !info.rerun_inputs.empty() ? info.rerun_inputs : info.inputs;
  }

  /// Leaves out further runs one by one.
  void hold_instead(const std::vector<std::int32_t>& order) {
    num_runs_.assign(problem_.nodes.size(), 0);
    std::vector<std::int32_t> shorter;
    for (std::size_t p = 0; p < order.size() && visits_left_ > 0; ++p) {
      if (num_runs_[order[p]]++ == 0) continue;
      shorter = order;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(p));
      offer(shorter);
    }
  }

  void lower_peak(const std::vector<std::int32_t>& order, int depth) {
    std::vector<OrderMeter::Step> steps;
    const OrderMeter::Figures figures = front_.meter().measure(order, steps);
    std::size_t first = order.size(), last = 0;
    for (std::size_t p = 0; p < order.size(); ++p) {
      if (steps[p].running_bytes != figures.peak_bytes) continue;
      first = std::min(first, p);
      last = p;
    }
    if (first == order.size()) return;  // the peak is before the first node
    compute_again_behind(order, first, depth);
    if (last != first) compute_again_behind(order, last, depth);
  }

  /// Computes values again that are held at `peak` and read behind it.
  void compute_again_behind(const std::vector<std::int32_t>& order, std::size_t peak, int depth) {
    find_next_reads(order, peak);
    std::vector<std::vector<std::int32_t>> unhelpful;
    const RecomputeProblem::Node& running = problem_.nodes[order[peak]];
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(producer_.size()) && visits_left_ > 0; ++v) {
      if (producer_[v] < 0 || next_read_[v] < 0) continue;
      // What the running node reads is there in any case, but may be taken over if nothing reads it any more.
      const bool is_read = last_event_[v] == static_cast<std::int64_t>(peak);
      const bool may_be_taken = std::any_of(running.take_overs.begin(), running.take_overs.end(),
                                            [&](const auto& rule) { return rule.input == v; });
      if (is_read && !may_be_taken) continue;
      const auto read = static_cast<std::size_t>(next_read_[v]);
      for (const bool all : {false, true}) {
        std::vector<std::int32_t> longer = with_runs(order, peak, read, v, all);
        if (longer.empty()) continue;
        if (!offer(longer) && depth > 1) unhelpful.push_back(std::move(longer));
      }
    }
    for (const std::vector<std::int32_t>& longer : unhelpful)
      if (visits_left_ > 0) lower_peak(longer, depth - 1);
  }

  /// last_event_, next_read_: of the copy of each value that is there at `peak`; -1: none.
  void find_next_reads(const std::vector<std::int32_t>& order, std::size_t peak) {
    last_event_.assign(problem_.values.size(), -1);
    next_read_.assign(problem_.values.size(), -1);
    num_runs_.assign(problem_.nodes.size(), 0);
    std::vector<bool> is_made_again(problem_.values.size(), false);
    for (std::size_t p = 0; p < order.size(); ++p) {
      const bool is_rerun = num_runs_[order[p]]++ > 0;
      for (std::int32_t input : reads_of(order[p], is_rerun)) {
        if (p <= peak)
          last_event_[input] = static_cast<std::int64_t>(p);
        else if (!is_made_again[input] && next_read_[input] < 0)
          next_read_[input] = static_cast<std::int64_t>(p);
      }
      for (std::int32_t output : problem_.nodes[order[p]].outputs) {
        if (is_rerun && problem_.values[output].is_pinned) continue;
        if (p <= peak)
          last_event_[output] = static_cast<std::int64_t>(p);
        else
          is_made_again[output] = true;
      }
    }
  }

  /// `order` with what makes `value` run again right before `read`. What that reads is held until then, or, if `all`,
  /// computed again too where it is not held at the peak anyway; empty where that is the same.
  std::vector<std::int32_t> with_runs(const std::vector<std::int32_t>& order, std::size_t peak, std::size_t read,
                                      std::int32_t value, bool all) const {
    std::vector<std::int32_t> runs = {producer_[value]};
    if (all) {
      std::vector<bool> is_made_since(problem_.values.size(), false);
      for (std::size_t p = peak + 1; p < read; ++p)
        for (std::int32_t output : problem_.nodes[order[p]].outputs) is_made_since[output] = true;
      for (std::size_t r = 0; r < runs.size(); ++r) {
        for (std::int32_t input : reads_of(runs[r], true)) {
          if (producer_[input] < 0 || is_made_since[input] || next_read_[input] >= 0) continue;
          if (std::find(runs.begin(), runs.end(), producer_[input]) == runs.end()) runs.push_back(producer_[input]);
        }
      }
      if (runs.size() == 1) return {};
      std::sort(runs.begin(), runs.end());
    }
    std::vector<std::int32_t> longer = order;
    longer.insert(longer.begin() + static_cast<std::ptrdiff_t>(read), runs.begin(), runs.end());
    return longer;
  }

  const RecomputeProblem& problem_;
  RecomputeFront& front_;
  std::int64_t visits_left_;
  std::vector<std::int32_t> producer_;  // by value: of what may be computed again
  std::vector<std::int32_t> num_runs_;
  std::vector<std::int64_t> last_event_, next_read_;
};

}  // namespace

void refine_orders(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits) {
  Refinement(problem, front, max_visits).run();
}

}  // namespace trainer
