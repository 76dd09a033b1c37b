#include "engine/program/recompute/descent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/program/recompute/order.h"
#include "engine/program/recompute/reruns.h"

namespace trainer {
namespace {

class Descent {
 public:
  Descent(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits)
      : problem_(problem), front_(front), visits_left_(max_visits), reruns_(problem) {}

  std::int64_t visits_left() const { return visits_left_; }

  /// Takes steps from `order` on, which ends within the budget unless none helps or `max_visits` have been made.
  void bring_down(std::vector<std::int32_t>& order, std::int64_t budget, std::int64_t max_visits) {
    budget_ = budget;
    stop_at_ = visits_left_ - max_visits;
    Figures now = look_at(order);
    while (now.excess > 0 && has_visits()) {
      const std::size_t place = fullest_place();
      reruns_.look_at(order, place);
      Step best;
      for (std::int32_t v = 0; v < reruns_.num_values() && has_visits(); ++v)
        if (reruns_.is_possible(v) && reruns_.last_event(v) >= 0) try_steps(order, now, v, best);
      if (best.gain <= 0) return;
      order = std::move(best.order);
      now = look_at(order);
      offer(order);
    }
    if (now.excess <= 0) hold_again(order);
  }

 private:
  struct Figures {
    double excess = 0;  ///< bytes above the budget, added up over the order
    double time = 0;
  };
  struct Step {
    double gain = 0;  ///< excess taken away, by the time it costs
    std::vector<std::int32_t> order;
  };

  bool has_visits() const { return visits_left_ > stop_at_; }

  /// Leaves what each node of the order holds in steps_.
  Figures look_at(const std::vector<std::int32_t>& order) {
    visits_left_ -= static_cast<std::int64_t>(order.size());
    Figures figures;
    figures.time = front_.meter().measure(order, steps_).recompute_time;
    for (const OrderMeter::Step& step : steps_)
      figures.excess += static_cast<double>(std::max<std::int64_t>(0, step.running_bytes - budget_));
    return figures;
  }

  std::size_t fullest_place() const {
    const auto fullest = std::max_element(
        steps_.begin(), steps_.end(), [](const auto& a, const auto& b) { return a.running_bytes < b.running_bytes; });
    return static_cast<std::size_t>(fullest - steps_.begin());
  }

  void offer(const std::vector<std::int32_t>& order) {
    visits_left_ -= static_cast<std::int64_t>(order.size());
    front_.offer(order);
  }

  void try_steps(const std::vector<std::int32_t>& order, const Figures& now, std::int32_t value, Step& best) {
    for (const bool all : {false, true}) {
      std::vector<std::int32_t> longer = reruns_.with_runs(order, value, all);
      if (longer.empty()) continue;
      visits_left_ -= static_cast<std::int64_t>(longer.size());
      longer = without_unread(problem_, longer);
      const Figures then = look_at(longer);
      if (then.excess >= now.excess) continue;
      // A step that costs nothing is better than any other.
      const double cost = std::max(then.time - now.time, 1e-9 * (1 + now.time));
      const double gain = (now.excess - then.excess) / cost;
      if (gain > best.gain) best = {gain, std::move(longer)};
    }
  }

  void hold_again(std::vector<std::int32_t> order) {
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
      visits_left_ -= static_cast<std::int64_t>(shorter.size());
      shorter = without_unread(problem_, shorter);
      if (look_at(shorter).excess > 0) continue;
      order = std::move(shorter);
      return true;
    }
    return false;
  }

  const RecomputeProblem& problem_;
  RecomputeFront& front_;
  std::int64_t visits_left_, stop_at_ = 0;
  std::int64_t budget_ = 0;
  Reruns reruns_;
  std::vector<OrderMeter::Step> steps_;
  std::vector<std::int32_t> num_runs_;
};

}  // namespace

void add_descents(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits) {
  constexpr std::int64_t num_budgets = 24;
  if (problem.nodes.empty()) return;
  Descent descent(problem, front, max_visits);
  const std::vector<std::int32_t> start = front.orders().front().nodes;
  const std::int64_t highest = front.start_peak_bytes(), range = highest - front.least_peak_bytes();
  const auto budget_of = [&](std::int64_t i) { return highest - range * i / num_budgets; };
  // Each budget from where the one before it ended; then each from the start, the tight ones first.
  std::vector<std::int32_t> order = start;
  for (std::int64_t i = 1; i <= num_budgets; ++i)
    descent.bring_down(order, budget_of(i), descent.visits_left() / 2 / (num_budgets + 1 - i));
  for (std::int64_t i = num_budgets; i > 0; --i) {
    order = start;
    descent.bring_down(order, budget_of(i), descent.visits_left() / 3);
  }
}

}  // namespace trainer
