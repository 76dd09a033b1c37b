#pragma once

#include "engine/program/recompute/front.h"

namespace trainer {

// Note [Recomputation on a chain]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// On a chain of blocks (Note [Chains of blocks]) let T(i, j, m) be the least time computed again where value i is held,
// the backward parts of blocks j, j - 1, …, i + 1 are to be run and m bytes are free for it. Either block i + 1 runs
// now, something of it is kept for its backward part, and T(i + 1, j, less) follows. Or the forward part runs on to
// some value k, keeping nothing but value i; T(k, j, less) follows, and when all of that is released, T(i, k, m). This
// is the program of Beaumont, Herrmann, Pallez and Shilova, "Optimal memory-aware backpropagation of deep join
// networks" (2020) and "Optimal checkpointing for heterogeneous chains" (2019), with several ways to go through a
// block, with the memory of gradients where it is, and with value i released early where nobody holds it. j being the
// last block, nothing behind value i has run yet, and the forward part costs nothing.

/// Offers the orders that are best on the chain of blocks, for all budgets, to the front.
void add_chain(const RecomputeProblem& problem, RecomputeFront& front);

}  // namespace trainer
