#pragma once

#include <vector>

#include "engine/rank_layout.h"

namespace trainer::cuda {

// Note [Groups of ranks]
// ~~~~~~~~~~~~~~~~~~~~~~
// A communicator of NCCL's is of one group of ranks, and takes buffers on each of their GPUs for every channel and
// neighbour. A rank of Note [Layouts of ranks] in engine/rank_layout.h has one for all ranks, and one for each of its
// groups that adds up by itself. All ranks make them kind by kind, and the groups of a kind have no rank in common: so
// none waits for another that waits for it. Where a group adds up a few numbers and no more, one channel serves it.
//
// Two ranks that tell each other something, stages of a pipeline or those of Note [Sums in one order] in
// cuda/ops/tree_sum.h, do so in the group of all. So do two stages that use one weight, which are no group of a layout:
// they exchange their gradients, and each adds up.

/// A group of ranks that has a communicator.
struct LinkedGroup {
  RankGroup ranks;
  bool carries_tensors = true;  ///< else a few numbers
};

/// Those of `layout.rank`, all ranks first; none where it is one rank.
std::vector<LinkedGroup> linked_groups(const RankLayout& layout);

/// How a device's ranks add up.
struct RankSums {
  RankLayout layout{};
  bool in_order = false;  ///< Note [Sums in one order] in cuda/ops/tree_sum.h
};

}  // namespace trainer::cuda
