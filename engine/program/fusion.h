#pragma once

#include "engine/graph/graph.h"

namespace trainer {

/// Puts cross_entropy_with_gradient where cross_entropy and its gradient stand: the logits are read once. The op takes
/// the gradient's place, phase (backward) and buffer; the forward pass ends before the loss. Runs after
/// differentiate().
void fuse_loss_gradient(Graph& graph);

}  // namespace trainer
