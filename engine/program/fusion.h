#pragma once

#include "engine/graph/graph.h"

namespace trainer {

/// Lets linear, conv2d, batchnorm2d and add apply the ReLU that follows them, where nothing else reads their result:
/// one pass over the activation and one buffer less. Runs on the forward graph, before differentiate().
void fuse_relu(Graph& graph);

/// Puts cross_entropy_with_gradient where cross_entropy and its gradient stand: the logits are read once. The op takes
/// the gradient's place, phase (backward) and buffer; the forward pass ends before the loss. Runs after
/// differentiate().
void fuse_loss_gradient(Graph& graph);

}  // namespace trainer
