#pragma once

#include "engine/program/recompute/front.h"

namespace trainer {

/// Improves the orders of the front one step at a time until no step helps or `max_visits` nodes of orders have been
/// walked. A step either computes a value again right before its next read, so that it is not held where the peak is,
/// or holds one instead of computing it again. Both reach orders that sets of kept values and chains do not know.
void refine_orders(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits);

}  // namespace trainer
