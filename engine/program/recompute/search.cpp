#include "engine/program/recompute/search.h"

#include <algorithm>

#include "engine/program/recompute/chain.h"
#include "engine/program/recompute/descent.h"
#include "engine/program/recompute/front.h"
#include "engine/program/recompute/keep_sets.h"
#include "engine/program/recompute/refine.h"
#include "engine/program/recompute/segments.h"

namespace trainer {

std::vector<RecomputeOrder> search_orders(const RecomputeProblem& problem, const std::vector<std::int32_t>& start) {
  RecomputeFront front(problem, start);
  add_chain(problem, front);
  add_segments(problem, front);
  add_keep_sets(problem, front);
  add_descents(problem, front);
  constexpr std::int64_t max_visits = 2'000'000;
  refine_orders(problem, front, max_visits);
  return front.orders();
}

const RecomputeOrder* fastest_within(const std::vector<RecomputeOrder>& orders, std::int64_t budget) {
  const RecomputeOrder* fastest = nullptr;
  for (const RecomputeOrder& order : orders) {
    if (order.peak_bytes > budget) continue;
    if (fastest == nullptr || order.recompute_time < fastest->recompute_time) fastest = &order;
  }
  return fastest;
}

}  // namespace trainer
