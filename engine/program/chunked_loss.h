#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace trainer {

/// Rows (samples, or positions of them) whose logits a chunk holds, of memory.chunked_loss: 0 where all of them are
/// held. `auto` (−1) takes chunks where there are 1024 classes or more and all logits take more than 32 MiB: then the
/// largest power of two of rows whose logits take no more than 16 MiB. Ranks that share the classes, of which one has
/// at most `classes`, wait for each other in every chunk: theirs are of up to 64 MiB, where all take more than 128.
std::int64_t loss_chunk_rows(std::int64_t chunked_loss, std::int64_t rows, std::int64_t classes, bool are_shared);

/// Puts linear_cross_entropy where the last linear layer and the cross-entropy behind it stand, so that the logits of
/// the whole batch are never held: Note [Chunked loss] in engine/ops/linear_cross_entropy.h. In a training graph, after
/// differentiate(), it is linear_cross_entropy_with_gradient, in the place and phase (backward) of the loss's gradient;
/// gradients of parameters that were made in 16 bit and widened are then made in f32. Casts that mixed precision put
/// between layer and loss belong to it, and so do the sums of ranks that share the classes.
/// Does nothing where the rows are 0. Where nothing of the kind stands there, or the layer's weight is frozen, `auto`
/// leaves the graph as it is and a number of rows is a ConfigError. `auto` goes by a batch of `num_samples`, so that
/// smaller ones are computed alike.
void chunk_loss(Graph& graph, std::int64_t chunked_loss, std::int64_t num_samples);

}  // namespace trainer
