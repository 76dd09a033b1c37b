#pragma once

#include "engine/graph/graph.h"

namespace trainer {

// Note [Residual blocks]
// ~~~~~~~~~~~~~~~~~~~~~~
// A residual block ends in a sum. It reads again what the op before it has just written, or the op behind it reads what
// it has, and the same holds of gradients. Where the two stand one behind the other they become one op:
//
//   batchnorm2d                       batchnorm2d with an addend (relu): x twice, the addend once, the sum written
//   once; add (relu)                   →    the batch norm's own output is never stored
//
//   activation_backward (relu)        batchnorm2d_backward, which finds by the block's output what passed ReLU and
//   batchnorm2d_backward         →    writes the gradient of the shortcut
//
//   add                               layernorm of a sum, which it writes too: the residual stream of blocks that
//   layernorm                    →    normalise first
//
//   layernorm_backward                layernorm_backward, which adds the gradient that comes past the block
//   add                          →
//
// Of two batch norms that end in one sum, that of the shortcut runs last and takes it; the other's output is the
// addend. Without ReLU a sum's gradient is that of both its terms, and there is nothing to fuse.
//
// In f32 forward outputs have the bits that two ops give them. In 16 bit a batch norm's output is no longer rounded
// before the sum, nor a layer norm's gradient. So these two are always one op, whatever is computed again: batch norms
// take their sums before that is chosen, and what is computed again stands right before what reads it, so never before
// the sum behind a layer norm's gradient, which reads gradients alone. The other two give the same bits in 16 bit as
// well (a layer norm rounds the sum first, from which it may be computed again). All but the batch norms' sums are made
// of the nodes as they will run, so that they change nothing about what is kept. No pair holds more as one op than it
// held as two: where the two had the memory of their operands one after the other, the one op stores its outputs over
// all of them. That is why the pairs that need it stay apart without memory.in_place, and others where something may
// not be written over, or where a layer norm alone reads the sum.

/// Lets batch norms take the sum behind them. Runs on the forward graph, or on the differentiated one.
void fuse_sums_into_batchnorms(Graph& graph);

/// The other pairs of Note [Residual blocks], after apply_recompute() and before apply_offload().
void fuse_residuals(Graph& graph, bool in_place);

}  // namespace trainer
