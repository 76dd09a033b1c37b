#pragma once

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/graph/graph.h"

namespace trainer {

// Note [Cut layers]
// ~~~~~~~~~~~~~~~~~
// With parallel.tensor ranks share layers (Shoeybi et al., "Megatron-LM", 2019): all compute on the same samples, each
// with its part of the weights. Of a pair of linear layers with an activation, a product of two, or attention between
// them the first is cut by outputs (rows of its weight) and the second by inputs (columns), so that what lies between
// exists in parts alone: attention by heads, all else by features. What the second makes are terms of a sum, which
// ranks add up; its bias the first of them has alone. So is the gradient of what the first layer reads (SharedInput in
// engine/graph/graph.h). Embeddings are cut by rows: a rank has 0 for words of others, and all add up. A last layer
// over as many classes is cut by rows too, and its loss computed of parts: Note [Losses of cut classes] in
// engine/ops/class_parts.h.
//
// This is a pass over the forward graph, before all others: ops are those of smaller layers, and all_reduce. Weights
// are values of this rank's part (Graph::parameter_cuts), from which follow gradients, the optimizer's state and files
// (TensorPart::axis). What is not cut every rank computes alike, to the bit, so parameters stay alike, or in rows
// (Note [Cut rows] in cut_rows.h). What ranks add up is kept, and what else is computed again is so on all of them, in
// the order of the first.

/// Leaves this rank's part of layers in a forward pass; does nothing where one rank has them whole. Throws ConfigError
/// where a layer cannot be shared evenly, or none at all.
void cut_layers(Graph& forward, const Experiment& experiment, const DataDescription& data);

}  // namespace trainer
