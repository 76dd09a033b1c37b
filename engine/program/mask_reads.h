#pragma once

#include "engine/graph/graph.h"

namespace trainer {

// Note [Masks further on]
// ~~~~~~~~~~~~~~~~~~~~~~~
// The gradient of ReLU reads its output y as a mask, also where only dropout or flatten reads y further on. The product
// behind these keeps their output d for the gradient of its weights, so that both y and d are kept. But d tells the
// same, and the gradient can be stopped on its way before it comes to y:
//
//   relu                     y, kept                       relu                   may be written over
//   dropout                  d, kept                       dropout                d, kept
//   …                                                 →    …
//   dropout_backward         gradient of y                 activation_backward    gradient of d, where d > 0
//   activation_backward      where y > 0                   dropout_backward
//
// Bit for bit the same, because both ops work on each number alone (flatten but puts them elsewhere). Where dropout
// keeps a number, d = y / (1 − p) ≥ y is above 0 where y is and only there (should it overflow, it is infinite, not 0),
// and a gradient that is stopped is 0 before it is divided and after. Where dropout drops it, d = 0 and the gradient is
// 0 in either order. NaN is not above 0, kept or dropped.

/// Moves gradients of ReLU in front of those of dropout and flatten, one after another, where these alone read ReLU's
/// output. Runs after differentiate().
void read_masks_further_on(Graph& graph, bool enabled = true);

}  // namespace trainer
