#pragma once

#include <cstdint>

#include "engine/program/recompute/front.h"
#include "engine/program/recompute/search.h"

namespace trainer {

// Note [Down to a budget]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A graph whose parts hang together, as a U-Net's do by what leads past its middle and a dense block's by all that each
// layer reads, is no chain of small blocks, and one step of refinement seldom makes an order that is better in itself:
// where many places hold as much, the peak stays what it was until all of them hold less. So an order is brought down
// to some budgets. What counts on the way is not the peak but all that is held above the budget, added up over the
// order, which every step lowers; the one is taken that takes most of it away for the time that it costs. Steps are
// those of the refinement (reruns.h). Once nothing is above the budget, what need not be computed again is held again,
// the costliest first.

/// Offers such orders for some budgets between the least and the largest peak of the front. `max_visits` bounds the
/// work: nodes of the orders that are measured.
void add_descents(const RecomputeProblem& problem, RecomputeFront& front, std::int64_t max_visits);

}  // namespace trainer
