#pragma once

#include "engine/program/recompute/front.h"
#include "engine/program/recompute/search.h"

namespace trainer {

// Note [Down to a budget]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A graph whose parts hang together, as a U-Net's do by what leads past its middle and a dense block's by all that each
// layer reads, is no chain of small blocks, and one step of refinement seldom makes an order that is better in itself:
// where many places hold as much, the peak stays what it was until all of them hold less. So an order is brought down
// to some budgets. What counts on the way is not the peak but what is held above the budget, the most of each first run
// and of the further runs in front of it, added up: every step lowers that, and a further run adds no place of its own.
// The step is taken that takes most of it away for the time that it costs. At the fullest place, a step
//   - computes one value again that is held there, from what is held for that or computed again too,
//   - or several that are held there, neighbours in the order of their nodes: a stage of a U-Net with its skip. Only
//     where a block has a third of all nodes: what small blocks can do together, the chain's tables find,
//   - or computes one again with all that it takes, and holds what that makes until the further runs of the same nodes
//     that stand later, which go: a U-Net's whole way down, from the image on, instead of one half of it at the middle
//     and the other at the end. It costs much where it is taken and saves the rest afterwards, so some descents take
//     such steps and some do not,
//   - or moves a further run to before the place, where what it makes is less than what it reads: pooling.
// Once nothing is above the budget, what need not be computed again is held again, the costliest first.
//
// An order found so is then exchanged: a further run is left out, and what is above the budget for that is brought down
// again in some other way, as long as that is faster.

/// Offers such orders for some budgets. Nodes of the orders that are measured are counted, which bounds the work.
void add_descents(const RecomputeProblem& problem, RecomputeFront& front);

}  // namespace trainer
