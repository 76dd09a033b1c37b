#pragma once

#include "engine/program/recompute/front.h"

namespace trainer {

/// Offers the orders that are best on the chain of blocks (Note [Chains of blocks]) among those that compute everything
/// again at most once: each block keeps something for its backward part, or is passed with those beside it in a segment
/// of which only the input is held, and which runs a second time as a whole. That is less than a search for nested
/// schemes (engine/program/recompute/chain.h) finds, but work grows with the number of blocks only, so that thousands
/// of them need not be merged.
void add_segments(const RecomputeProblem& problem, RecomputeFront& front);

}  // namespace trainer
