#include "engine/program/recompute/descent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/program/recompute/blocks.h"
#include "engine/program/recompute/order.h"
#include "engine/program/recompute/reruns.h"

namespace trainer {
namespace {

class Descent {
 public:
  Descent(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits, bool takes_several)
      : problem_(problem), front_(front), visits_left_(max_visits), takes_several_(takes_several), reruns_(problem) {}

  /// From here on steps may hold what they compute again until it is needed later (Reruns::with_runs_once).
  void allow_once() { allows_once_ = true; }
  std::int64_t visits_left() const { return visits_left_; }

  /// Takes steps from `order` on, which ends within the budget unless none helps or `max_visits` have been made.
  void bring_down(std::vector<std::int32_t>& order, std::int64_t budget, std::int64_t max_visits) {
    budget_ = budget;
    stop_at_ = visits_left_ - max_visits;
    Figures now = look_at(order);
    while (now.excess > 0 && has_visits()) {
      Step best = best_step(order, now);
      if (best.gain <= 0) return;
      order = without_unread(problem_, best.order);
      now = look_at(order);
      offer(order);
    }
    if (now.excess <= 0) hold_again(order);
  }

  /// Leaves out one further run after the other and brings what that gives down again, as long as an order within the
  /// budget gets faster.
  void exchange(std::vector<std::int32_t> order, std::int64_t budget, std::int64_t max_visits) {
    budget_ = budget;
    stop_at_ = visits_left_ - max_visits;
    bool is_better = true;
    while (is_better && has_visits()) {
      is_better = false;
      const Figures now = look_at(order);
      num_runs_.assign(problem_.nodes.size(), 0);
      std::vector<std::size_t> further_runs;
      for (std::size_t p = 0; p < order.size(); ++p)
        if (num_runs_[order[p]]++ > 0) further_runs.push_back(p);
      for (const std::size_t p : further_runs) {
        if (!has_visits()) return;
        std::vector<std::int32_t> other = order;
        other.erase(other.begin() + static_cast<std::ptrdiff_t>(p));
        other = without_unread(problem_, other);
        if (!repair(other, now.time)) continue;
        order = std::move(other);
        is_better = true;
        break;
      }
    }
  }

 private:
  struct Figures {
    double excess = 0;  ///< bytes above the budget, added up over the stages (OrderMeter::measure_stages)
    double time = 0;
  };
  struct Step {
    double gain = 0;  ///< excess taken away, by the time it costs
    std::vector<std::int32_t> order;
  };

  /// Takes steps until the order is within the budget; false where none helps, or where that is not faster than `time`.
  bool repair(std::vector<std::int32_t>& order, double time) {
    Figures now = look_at(order);
    while (now.excess > 0 && now.time < time && has_visits()) {
      Step best = best_step(order, now);
      if (best.gain <= 0) return false;
      order = without_unread(problem_, best.order);
      now = look_at(order);
    }
    if (now.excess > 0 || now.time >= time) return false;
    hold_again(order);
    return true;
  }

  bool has_visits() const { return visits_left_ > stop_at_; }

  Figures look_at(const std::vector<std::int32_t>& order) {
    visits_left_ -= static_cast<std::int64_t>(order.size());
    Figures figures;
    figures.time = front_.meter().measure_stages(order, stage_bytes_).recompute_time;
    for (const std::int64_t bytes : stage_bytes_)
      figures.excess += static_cast<double>(std::max<std::int64_t>(0, bytes - budget_));
    return figures;
  }

  /// The best step at the fullest place; without gain where none helps.
  Step best_step(const std::vector<std::int32_t>& order, const Figures& now) {
    Step best;
    const std::size_t place = fullest_place(order);
    reruns_.look_at(order, place);
    std::vector<std::int32_t> held;
    for (std::int32_t v = 0; v < reruns_.num_values() && has_visits(); ++v)
      if (reruns_.is_possible(v) && reruns_.last_event(v) >= 0) {
        try_steps(order, now, v, best);
        held.push_back(v);
      }
    for (std::size_t first = 0; takes_several_ && first < held.size(); ++first)
      for (std::size_t end = first + 1; end <= held.size() && has_visits(); ++end)
        try_step(reruns_.without_held(order, {held.begin() + static_cast<std::ptrdiff_t>(first),
                                              held.begin() + static_cast<std::ptrdiff_t>(end)}),
                 now, best);
    return best;
  }

  std::size_t fullest_place(const std::vector<std::int32_t>& order) {
    front_.meter().measure(order, steps_);
    const auto fullest = std::max_element(
        steps_.begin(), steps_.end(), [](const auto& a, const auto& b) { return a.running_bytes < b.running_bytes; });
    return static_cast<std::size_t>(fullest - steps_.begin());
  }

  void offer(const std::vector<std::int32_t>& order) {
    visits_left_ -= static_cast<std::int64_t>(order.size());
    front_.offer(order);
  }

  void try_steps(const std::vector<std::int32_t>& order, const Figures& now, std::int32_t value, Step& best) {
    for (const bool all : {false, true}) try_step(reruns_.with_runs(order, value, all), now, best);
    if (allows_once_) try_step(reruns_.with_runs_once(order, value), now, best);
    try_step(reruns_.with_earlier_run(order, value), now, best);
  }
  void try_step(std::vector<std::int32_t> longer, const Figures& now, Step& best) {
    if (longer.empty()) return;
    const Figures then = look_at(longer);
    if (then.excess >= now.excess) return;
    // A step that costs nothing is better than any other.
    const double cost = std::max(then.time - now.time, 1e-9 * (1 + now.time));
    const double gain = (now.excess - then.excess) / cost;
    if (gain > best.gain) best = {gain, std::move(longer)};
  }

  void hold_again(std::vector<std::int32_t>& order) {
    while (leave_out_one(order)) {
    }
    offer(order);
  }

  /// The costliest further run without which the order stays within the budget; false where there is none.
  bool leave_out_one(std::vector<std::int32_t>& order) {
    std::vector<std::pair<double, std::size_t>> runs;  // by falling cost
    num_runs_.assign(problem_.nodes.size(), 0);
    for (std::size_t p = 0; p < order.size(); ++p) {
      if (num_runs_[order[p]]++ == 0) continue;
      const RecomputeProblem::Node& node = problem_.nodes[order[p]];
      runs.emplace_back(-(node.rerun_time < 0 ? node.time : node.rerun_time), p);
    }
    std::sort(runs.begin(), runs.end());
    for (const auto& [minus_time, p] : runs) {
      if (!has_visits()) return false;
      std::vector<std::int32_t> shorter = order;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(p));
      if (look_at(shorter).excess > 0) continue;
      order = without_unread(problem_, shorter);
      return true;
    }
    return false;
  }

  const RecomputeProblem& problem_;
  RecomputeFront& front_;
  std::int64_t visits_left_, stop_at_ = 0;
  std::int64_t budget_ = 0;
  bool takes_several_;
  bool allows_once_ = false;
  Reruns reruns_;
  std::vector<OrderMeter::Step> steps_;
  std::vector<std::int32_t> num_runs_;
  std::vector<std::int64_t> stage_bytes_;
};

/// Whether the graph is hardly a chain: one of its blocks (Note [Chains of blocks]) has a third of the forward nodes.
bool hangs_together(const RecomputeProblem& problem) {
  const std::vector<ForwardBlock> blocks = cut_into_blocks(problem, problem.num_forward);
  return std::any_of(blocks.begin(), blocks.end(), [&](const ForwardBlock& block) {
    return 3 * static_cast<std::int64_t>(block.end - block.first) >= problem.num_forward;
  });
}

}  // namespace

void add_descents(const RecomputeProblem& problem, RecomputeFront& front) {
  constexpr std::int64_t num_budgets = 24;
  if (problem.num_forward == 0) return;
  const bool is_hard = hangs_together(problem);
  const auto num_nodes = static_cast<std::int64_t>(problem.nodes.size());
  const std::int64_t most_visits = is_hard ? 16'000'000 : 4'000'000;
  const std::int64_t descent_visits = std::min(most_visits, 800 * num_nodes * num_nodes);
  const std::int64_t exchange_visits = descent_visits / 4;
  Descent descent(problem, front, descent_visits + exchange_visits, is_hard);
  const std::vector<std::int32_t> start = front.orders().front().nodes;
  // Nobody knows how far down it goes: the budgets reach below what the others found.
  const std::int64_t highest = front.start_peak_bytes(), range = highest * 3 / 4;
  const auto budget_of = [&](std::int64_t i) { return highest - range * i / num_budgets; };
  const auto descent_visits_left = [&] { return descent.visits_left() - exchange_visits; };
  // Each budget from where the one before it ended; then each from the start, the tight ones first.
  std::vector<std::int32_t> order = start;
  for (std::int64_t i = 1; i <= num_budgets; ++i)
    descent.bring_down(order, budget_of(i), descent_visits_left() / 2 / (num_budgets + 1 - i));
  descent.allow_once();
  for (std::int64_t i = num_budgets; i > 0; --i) {
    order = start;
    descent.bring_down(order, budget_of(i), descent_visits_left() / 3);
  }
  const std::vector<RecomputeOrder> orders = front.orders();
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const std::int64_t budget = i > 0 ? orders[i - 1].peak_bytes - 1 : orders[i].peak_bytes;
    descent.exchange(orders[i].nodes, budget, descent.visits_left() / static_cast<std::int64_t>(orders.size() - i));
  }
}

}  // namespace trainer
