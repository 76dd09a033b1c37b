#include "engine/program/recompute/refine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/program/recompute/order.h"
#include "engine/program/recompute/reruns.h"

namespace trainer {
namespace {

class Refinement {
 public:
  Refinement(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits)
      : problem_(problem), front_(front), visits_left_(max_visits), reruns_(problem) {}

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
    reruns_.look_at(order, peak);
    std::vector<std::vector<std::int32_t>> unhelpful;
    const RecomputeProblem::Node& running = problem_.nodes[order[peak]];
    for (std::int32_t v = 0; v < reruns_.num_values() && visits_left_ > 0; ++v) {
      if (!reruns_.is_possible(v)) continue;
      // What the running node reads is there in any case, but may be taken over if nothing reads it any more.
      const bool is_read = reruns_.last_event(v) == static_cast<std::int64_t>(peak);
      const bool may_be_taken = std::any_of(running.take_overs.begin(), running.take_overs.end(),
                                            [&](const auto& rule) { return rule.input == v; });
      if (is_read && !may_be_taken) continue;
      for (const bool all : {false, true}) {
        std::vector<std::int32_t> longer = reruns_.with_runs(order, v, all);
        if (longer.empty()) continue;
        if (!offer(longer) && depth > 1) unhelpful.push_back(std::move(longer));
      }
    }
    for (const std::vector<std::int32_t>& longer : unhelpful)
      if (visits_left_ > 0) lower_peak(longer, depth - 1);
  }

  const RecomputeProblem& problem_;
  RecomputeFront& front_;
  std::int64_t visits_left_;
  Reruns reruns_;
  std::vector<std::int32_t> num_runs_;
};

}  // namespace

void refine_orders(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits) {
  Refinement(problem, front, max_visits).run();
}

}  // namespace trainer
