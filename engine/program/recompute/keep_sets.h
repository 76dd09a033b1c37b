#pragma once

#include "engine/program/recompute/front.h"

namespace trainer {

/// Offers orders of sets of kept values (order_of_kept) to the front: all sets where they are few; otherwise what
/// greedy sequences and uniform segments lead to.
void add_keep_sets(const RecomputeProblem& problem, RecomputeFront& front);

}  // namespace trainer
