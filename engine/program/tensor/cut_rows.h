#pragma once

#include "engine/graph/graph.h"
#include "engine/rank_layout.h"

namespace trainer {

// Note [Cut rows]
// ~~~~~~~~~~~~~~~
// What lies between cut layers (Note [Cut layers] in cut_layers.h), norms, sums around blocks, dropout, computes each
// place of a text by itself. So ranks need not all compute and hold it whole (Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models", 2022): where a layer's terms are added up, each rank gets the sum of its
// part of the rows (reduce_scatter), works on that, and gathers all rows in front of the next cut layer. An all_reduce
// sends as much as both. The gradient of what was gathered, of which each rank has a term, is added up and cut
// likewise.
//
// What another layer reads is gathered for it: all ranks then compute the same, also its gradient, of which each takes
// its rows. A whole operand of a sum of rows, such as words with their positions, is sliced, and its gradient an
// all_reduce of rows and zeros. Of a norm's weights each rank finds a term of the gradient, of
// its rows, which are added up before the update (Graph::gradient_terms).
//
// Rows are those of a batch's samples, one behind the other, as many on each rank: where the length of a text, or the
// number of an image's patches, is a multiple of the number of ranks. What is gathered is kept for the backward pass,
// or gathered again where activations are computed again, in one order on all ranks.

/// Leaves this rank's rows between the layers of a forward pass that has been cut.
void cut_rows(Graph& forward, const RankLayout& ranks);

}  // namespace trainer
