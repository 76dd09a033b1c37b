#include "engine/program/recompute/keep_sets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

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
    sequences_ = {KeptOrders::Sequence::by_node};
    if (branches())
      sequences_.insert(sequences_.end(),
                        {KeptOrders::Sequence::first_input_first, KeptOrders::Sequence::last_input_first});
  }

  std::size_t size() const { return kept_orders_.choices().size(); }
  bool branches() const { return kept_orders_.branches(); }

  void offer_all() {
    for (std::uint32_t set = 0; set < (1U << size()); ++set) {
      for (std::size_t c = 0; c < size(); ++c) keep_[kept_orders_.choices()[c]] = (set >> c & 1U) != 0;
      offer();
    }
  }

  /// Drops one value after the other, those that are cheapest to compute again per byte first.
  void offer_by_time_per_byte() {
    std::fill(keep_.begin(), keep_.end(), true);
    for (std::int32_t value : by_time_per_byte()) {
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

  /// From each of the best sets found, others that treat one value otherwise: it is kept, computed again once, or
  /// computed again for each node that reads it. Begins with those of offer_by_time_per_byte().
  void offer_neighbours(std::int64_t max_visits) {
    visits_left_ = max_visits;
    std::fill(keep_.begin(), keep_.end(), true);
    again_.assign(keep_.size(), false);
    enter();
    for (std::int32_t value : by_time_per_byte()) {
      keep_[value] = false;
      enter();
    }
    while (visits_left_ > 0) {
      const auto next = std::find_if(best_.rbegin(), best_.rend(), [](const auto& e) { return !e.second.is_visited; });
      if (next == best_.rend()) break;
      next->second.is_visited = true;
      enter_neighbours_of(Treatment(next->second.treatment));
    }
  }

 private:
  /// By value: whether it is kept, and whether what is not is computed again for each node that reads it.
  using Treatment = std::pair<std::vector<bool>, std::vector<bool>>;
  struct Entry {
    double time = 0;
    Treatment treatment;
    bool is_visited = false;
  };

  std::vector<std::int32_t> by_time_per_byte() const {
    std::vector<std::int32_t> sequence = kept_orders_.choices();
    std::stable_sort(sequence.begin(), sequence.end(), [&](std::int32_t a, std::int32_t b) {
      return cost_[a] * static_cast<double>(problem_.values[b].num_bytes) <
             cost_[b] * static_cast<double>(problem_.values[a].num_bytes);
    });
    return sequence;
  }

  void offer() {
    for (const KeptOrders::Sequence sequence : sequences_) {
      kept_orders_.order_of(keep_, {}, sequence, order_);
      front_.offer(order_);
    }
  }

  void enter_neighbours_of(const Treatment& treatment) {
    for (std::int32_t value : kept_orders_.choices()) {
      for (const auto& [keeps, repeats] : {std::pair{true, false}, {false, false}, {false, true}}) {
        if (visits_left_ <= 0) return;
        std::tie(keep_, again_) = treatment;
        keep_[value] = keeps;
        again_[value] = repeats;
        if (treatment.first != keep_ || treatment.second != again_) enter();
      }
    }
  }

  /// Offers the order of keep_ and again_ in each sequence, and keeps it among the best where none is as good.
  void enter() {
    for (const KeptOrders::Sequence sequence : sequences_) {
      kept_orders_.order_of(keep_, again_, sequence, order_);
      visits_left_ -= static_cast<std::int64_t>(order_.size());
      const OrderMeter::Figures figures = front_.meter().measure(order_);
      front_.offer(order_, figures);
      const auto above = best_.upper_bound(figures.peak_bytes);
      if (above != best_.begin() && std::prev(above)->second.time <= figures.recompute_time) continue;
      auto first = best_.lower_bound(figures.peak_bytes);
      while (first != best_.end() && first->second.time >= figures.recompute_time) first = best_.erase(first);
      best_.insert_or_assign(figures.peak_bytes, Entry{figures.recompute_time, {keep_, again_}, false});
    }
  }

  const RecomputeProblem& problem_;
  RecomputeFront& front_;
  KeptOrders kept_orders_;
  std::vector<KeptOrders::Sequence> sequences_;
  std::vector<bool> keep_, again_;
  std::vector<double> cost_;  // by value: of the node that makes it again
  std::vector<std::int32_t> order_;
  std::map<std::int64_t, Entry> best_;  // by peak; times fall as peaks rise
  std::int64_t visits_left_ = 0;
};

}  // namespace

void add_keep_sets(const RecomputeProblem& problem, RecomputeFront& front) {
  constexpr std::size_t max_choices_of_all_sets = 14;
  constexpr std::int64_t max_visits = 2'000'000;
  KeepSets sets(problem, front);
  if (sets.size() <= max_choices_of_all_sets) {
    sets.offer_all();
  } else {
    sets.offer_by_time_per_byte();
    sets.offer_uniform();
  }
  if (sets.branches()) sets.offer_neighbours(max_visits);
}

}  // namespace trainer
