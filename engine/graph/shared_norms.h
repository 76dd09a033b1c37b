#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace trainer {

/// Throws ConfigError that points at the first batch norm over all ranks (Note [Batch norm over ranks] in
/// engine/ops/batchnorm2d_over_ranks.h) that would have one value a channel in a micro-batch of `odd_batch_size`
/// samples of all ranks together; 0: there is none. All ranks find the same, also those without a sample of it.
void check_shared_norms(const Graph& graph, std::int64_t odd_batch_size);

}  // namespace trainer
