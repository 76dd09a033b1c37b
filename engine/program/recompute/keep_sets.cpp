#include "engine/program/recompute/keep_sets.h"

#include <algorithm>
#include <utility>

#include "engine/program/recompute/kept.h"

namespace trainer {
namespace {

/// Sets over the choices of a problem, offered one by one.
class KeepSets {
 public:
  KeepSets(const RecomputeProblem& problem, RecomputeFront& front)
      : problem_(problem), front_(front), kept_orders_(problem), keep_(problem.values.size(), true) {
    cost_.assign(problem.values.size(), 0);
    for (std::int32_t n = 0; n < problem.num_forward; ++n) {
      const RecomputeProblem::Node& node = problem.nodes[n];
      for (std::int32_t output : node.outputs) cost_[output] = node.rerun_time < 0 ? node.time : node.rerun_time;
    }
  }

  std::size_t size() const { return kept_orders_.choices().size(); }

  void offer_all() {
    for (std::uint32_t set = 0; set < (1U << size()); ++set) {
      for (std::size_t c = 0; c < size(); ++c) keep_[kept_orders_.choices()[c]] = (set >> c & 1U) != 0;
      offer();
    }
  }

  /// Drops one value after the other, those that are cheapest to compute again per byte first.
  void offer_by_time_per_byte() {
    std::vector<std::int32_t> sequence = kept_orders_.choices();
    std::stable_sort(sequence.begin(), sequence.end(), [&](std::int32_t a, std::int32_t b) {
      return cost_[a] * static_cast<double>(problem_.values[b].num_bytes) <
             cost_[b] * static_cast<double>(problem_.values[a].num_bytes);
    });
    std::fill(keep_.begin(), keep_.end(), true);
    for (std::int32_t value : sequence) {
      keep_[value] = false;
      offer();
    }
  }

  /// Keeps every k-th choice.
  void offer_uniform() {
    for (std::size_t every = 2; every <= size(); every += 1 + every / 8) {
      for (std::size_t c = 0; c < size(); ++c) keep_[kept_orders_.choices()[c]] = c % every == every - 1;
      offer();
    }
  }

 private:
  void offer() {
    kept_orders_.order_of(keep_, order_);
    front_.offer(order_);
  }

  const RecomputeProblem& problem_;
  RecomputeFront& front_;
  KeptOrders kept_orders_;
  std::vector<bool> keep_;
  std::vector<double> cost_;  // by value: of the node that makes it again
  std::vector<std::int32_t> order_;
};

}  // namespace

void add_keep_sets(const RecomputeProblem& problem, RecomputeFront& front) {
  constexpr std::size_t max_choices_of_all_sets = 14;
  KeepSets sets(problem, front);
  if (sets.size() <= max_choices_of_all_sets) {
    sets.offer_all();
    return;
  }
  sets.offer_by_time_per_byte();
  sets.offer_uniform();
}

}  // namespace trainer
