#include "engine/program/recompute_front.h"

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
  best_.insert_or_assign(figures.peak_bytes, Entry{figures.recompute_time, nodes});
  return true;
}

std::vector<RecomputeOrder> RecomputeFront::orders() const {
  std::vector<RecomputeOrder> orders;
  for (auto entry = best_.rbegin(); entry != best_.rend(); ++entry)
    orders.push_back({entry->second.nodes, entry->first, entry->second.recompute_time});
  return orders;
}

}  // namespace trainer
