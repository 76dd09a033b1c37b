#include "engine/program/recompute/reruns.h"

#include <algorithm>

namespace trainer {

Reruns::Reruns(const RecomputeProblem& problem) : problem_(problem), producer_(problem.values.size(), -1) {
  for (std::int32_t n = 0; n < problem.num_forward; ++n) {
    for (std::int32_t output : problem.nodes[n].outputs) {
      const RecomputeProblem::Value& value = problem.values[output];
      if (problem.nodes[n].can_rerun && !value.is_given && !value.is_pinned && !value.is_result) producer_[output] = n;
    }
  }
}

void Reruns::look_at(const std::vector<std::int32_t>& order, std::size_t place) {
  place_ = place;
  last_event_.assign(problem_.values.size(), -1);
  next_read_.assign(problem_.values.size(), -1);
  num_runs_.assign(problem_.nodes.size(), 0);
  std::vector<bool> is_made_again(problem_.values.size(), false);
  for (std::size_t p = 0; p < order.size(); ++p) {
    const bool is_rerun = num_runs_[order[p]]++ > 0;
    if (p == place) runs_until_place_ = num_runs_;
    for (std::int32_t input : reads_of(order[p], is_rerun)) {
      if (p <= place)
        last_event_[input] = static_cast<std::int64_t>(p);
      else if (!is_made_again[input] && next_read_[input] < 0)
        next_read_[input] = static_cast<std::int64_t>(p);
    }
    for (std::int32_t output : problem_.nodes[order[p]].outputs) {
      if (is_rerun && problem_.values[output].is_pinned) continue;
      if (p <= place)
        last_event_[output] = static_cast<std::int64_t>(p);
      else
        is_made_again[output] = true;
    }
  }
}

std::vector<std::int32_t> Reruns::runs_for(const std::vector<std::int32_t>& order, std::int32_t value, bool all) const {
  const auto read = static_cast<std::size_t>(next_read_[value]);
  std::vector<std::int32_t> runs = {producer_[value]};
  if (!all) return runs;
  std::vector<bool> is_made_since(problem_.values.size(), false);
  for (std::size_t p = place_ + 1; p < read; ++p)
    for (std::int32_t output : problem_.nodes[order[p]].outputs) is_made_since[output] = true;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (std::int32_t input : reads_of(runs[r], true)) {
      if (producer_[input] < 0 || is_made_since[input] || next_read_[input] >= 0) continue;
      if (std::find(runs.begin(), runs.end(), producer_[input]) == runs.end()) runs.push_back(producer_[input]);
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::vector<std::int32_t> Reruns::with_runs(const std::vector<std::int32_t>& order, std::int32_t value,
                                            bool all) const {
  const std::vector<std::int32_t> runs = runs_for(order, value, all);
  if (all && runs.size() == 1) return {};
  std::vector<std::int32_t> longer = order;
  longer.insert(longer.begin() + next_read_[value], runs.begin(), runs.end());
  return longer;
}

std::vector<std::int32_t> Reruns::with_runs_once(const std::vector<std::int32_t>& order, std::int32_t value) const {
  const std::vector<std::int32_t> runs = runs_for(order, value, true);
  const std::int64_t read = next_read_[value];
  std::vector<std::int32_t> other(order.begin(), order.begin() + read);
  other.insert(other.end(), runs.begin(), runs.end());
  const std::size_t length_with_all = order.size() + runs.size();
  for (auto node = order.begin() + read; node != order.end(); ++node)
    if (!std::binary_search(runs.begin(), runs.end(), *node)) other.push_back(*node);
  if (other.size() == length_with_all) return {};
  return other;
}

std::vector<std::int32_t> Reruns::without_held(const std::vector<std::int32_t>& order,
                                               const std::vector<std::int32_t>& values) const {
  std::vector<bool> is_there(problem_.values.size(), true);
  for (std::size_t v = 0; v < is_there.size(); ++v) is_there[v] = producer_[v] < 0 || next_read_[v] >= 0;
  for (const std::int32_t value : values) is_there[value] = false;
  std::vector<std::int32_t> longer(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(place_) + 1);
  std::vector<std::int32_t> num_runs = runs_until_place_;
  std::vector<std::int32_t> runs, to_visit;
  for (std::size_t p = place_ + 1; p < order.size(); ++p) {
    runs.clear();
    to_visit.clear();
    const auto visit = [&](std::int32_t node, bool is_rerun) {
      for (const std::int32_t input : reads_of(node, is_rerun))
        if (!is_there[input]) to_visit.push_back(producer_[input]);
    };
    visit(order[p], num_runs[order[p]]++ > 0);
    while (!to_visit.empty()) {
      const std::int32_t node = to_visit.back();
      to_visit.pop_back();
      if (std::find(runs.begin(), runs.end(), node) != runs.end()) continue;
      runs.push_back(node);
      visit(node, true);
    }
    std::sort(runs.begin(), runs.end());
    longer.insert(longer.end(), runs.begin(), runs.end());
    runs.push_back(order[p]);
    for (const std::int32_t node : runs)
      for (const std::int32_t output : problem_.nodes[node].outputs) is_there[output] = true;
    longer.push_back(order[p]);
  }
  return longer;
}

std::vector<std::int32_t> Reruns::with_earlier_run(const std::vector<std::int32_t>& order, std::int32_t value) const {
  const std::int64_t read = next_read_[value], place = last_event_[value] + 1;
  if (place <= 0) return {};
  const auto first = order.begin() + place;
  const std::int32_t node = order[static_cast<std::size_t>(read)];
  if (std::find(order.begin(), first, node) == first) return {};
  std::vector<std::int32_t> moved = order;
  std::rotate(moved.begin() + place, moved.begin() + read, moved.begin() + read + 1);
  return moved;
}

}  // namespace trainer
