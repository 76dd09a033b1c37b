#include "engine/program/recompute/front.h"

#include <algorithm>
#include <iterator>

namespace trainer {

RecomputeFront::RecomputeFront(const RecomputeProblem& problem, const std::vector<std::int32_t>& start)
    : meter_(problem) {
  const OrderMeter::Figures figures = meter_.measure(start);
  start_peak_bytes_ = figures.peak_bytes;
  offer(start, figures);
}

bool RecomputeFront::offer(const std::vector<std::int32_t>& nodes, OrderMeter::Figures figures) {
  if (figures.peak_bytes > start_peak_bytes_) return false;
  auto above = best_.upper_bound(figures.peak_bytes);
  if (above != best_.begin() && std::prev(above)->second.recompute_time <= figures.recompute_time) return false;
  // What is as large or larger and not faster is of no use any more.
  auto first = best_.lower_bound(figures.peak_bytes);
  while (first != best_.end() && first->second.recompute_time >= figures.recompute_time) first = best_.erase(first);
  best_.insert_or_assign(figures.peak_bytes, Entry{figures.recompute_time, nodes, false});
  return true;
}

std::optional<std::vector<std::int32_t>> RecomputeFront::next_unvisited() {
  // Down from the last one, then once more from the top for what has been found above it since.
  for (const bool is_from_top : {false, true}) {
    auto entry = is_from_top ? best_.end() : best_.lower_bound(visited_down_to_);
    while (entry != best_.begin()) {
      --entry;
      if (entry->second.is_visited) continue;
      entry->second.is_visited = true;
      visited_down_to_ = entry->first;
      return entry->second.nodes;
    }
  }
  return std::nullopt;
}

void RecomputeFront::forget_visits() {
  visited_down_to_ = start_peak_bytes_ + 1;
  for (auto& [peak_bytes, entry] : best_) entry.is_visited = false;
}

std::vector<RecomputeOrder> RecomputeFront::orders() const {
  std::vector<RecomputeOrder> orders;
  for (const auto& [peak_bytes, entry] : best_) orders.push_back({entry.nodes, peak_bytes, entry.recompute_time});
  std::reverse(orders.begin(), orders.end());
  return orders;
}

}  // namespace trainer
