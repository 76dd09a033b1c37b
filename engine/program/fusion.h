#pragma once

#include "engine/graph/graph.h"

namespace trainer {

/// Lets linear, conv2d, batchnorm2d and add apply the ReLU that follows them, where nothing else reads their result:
/// one pass over the activation and one buffer less. Runs on the forward graph, before differentiate().
void fuse_relu(Graph& graph);

}  // namespace trainer
