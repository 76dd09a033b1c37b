#pragma once

#include <cstddef>

#include "engine/graph/graph.h"

namespace trainer {

/// Moves what makes gradients of weights, and nothing else that the backward pass reads, behind all of it, in its
/// order; what another op would write over before stays where it is. How many nodes these are.
std::size_t defer_weight_gradients(Graph& graph);

}  // namespace trainer
