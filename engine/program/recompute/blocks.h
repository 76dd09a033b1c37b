#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/recompute/search.h"

namespace trainer {

// Note [Chains of blocks]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Where one value alone leads from what has been computed to what has not, the forward pass can be cut. Between two
// cuts lies a block: all that it needs to run is its input, the value at the cut before it. Backward nodes are dealt
// out to blocks too: those of block k may read what block k made and its input, and all that stand behind them need
// blocks up to k only. So a problem becomes a chain, block k's forward part leading from value k - 1 to value k and its
// backward part coming after those of the blocks behind it, and what is known of chains holds for any graph. Block 0
// has no forward nodes: its value is the batch.

/// A block of a chain: ranges of nodes, and values at its ends (-1: none).
struct ForwardBlock {
  std::int32_t first = 0, end = 0;                    ///< forward nodes
  std::int32_t first_backward = 0, end_backward = 0;  ///< backward nodes; empty for a block that backward does not read
  std::int32_t input = -1, output = -1;

  bool has_backward() const { return first_backward < end_backward; }
};

/// Block 0 and those behind it; at most `max_blocks` and one, neighbours being merged evenly where there are more cuts.
std::vector<ForwardBlock> cut_into_blocks(const RecomputeProblem& problem, std::int32_t max_blocks);

}  // namespace trainer
