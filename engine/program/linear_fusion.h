#pragma once

#include "engine/graph/graph.h"
#include "engine/ops/linear.h"

namespace trainer {

// Note [Fused linear gradients]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Between two linear layers the gradient makes three passes that a product can make while it stores its result: the
// second layer's linear_backward_input writes a gradient, which the activation_backward between them reads with the
// activation and writes again. Where nothing else reads the first of these, they become one op:
//
//   linear (relu)                       linear (relu), keeping a bit for each positive output
//   linear                         →    linear
//   linear_backward_input               linear_backward_input, through relu, reading the bits
//   activation_backward (relu)
//
// The bits cost 1/32 of the activation, as long as it is as wide as a few words; narrow ones are left alone. GELU needs
// no more memory than before: its gradient reads the sums before it in any case, so the layer writes both.

/// Fuses what `fusions` names, on the differentiated graph. Products of a single term (a layer of one output) stay as
/// they are, and GELU whose layer's outputs are no multiple of 8: libraries refuse them.
void fuse_linear_gradients(Graph& graph, LinearFusions fusions);

}  // namespace trainer
