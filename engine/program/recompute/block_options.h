#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/recompute/blocks.h"
#include "engine/program/recompute/search.h"

namespace trainer {

/// A way through one block: what its forward part keeps for its backward part. Bytes count the block's own values and,
/// in the backward part, all gradients; not base_bytes; its input only where nobody else holds it.
struct BlockOption {
  std::int64_t forward_bytes = 0;            ///< at most, while its forward nodes run
  std::int64_t kept_bytes = 0;               ///< between the two parts
  std::int64_t backward_bytes = 0;           ///< at most, in its backward part
  bool keeps_output = false;                 ///< kept_bytes holds its output
  double recompute_time = 0;                 ///< of what the backward part computes again
  std::vector<std::int32_t> backward_nodes;  ///< the backward part, with what it computes again
};

/// A way to run a block's backward part when nothing of the block is held but its input.
struct BlockRerun {
  std::int64_t bytes = 0;  ///< at most, counted as in BlockOption::backward_bytes
  double time = 0;
  std::vector<std::int32_t> nodes;
};

/// What is known of a block by itself.
struct BlockFigures {
  ForwardBlock block;
  /// By whether someone else holds the input anyway (1) or it may be released (0). None is worse than another in all.
  std::vector<BlockOption> options[2];
  std::vector<BlockRerun> reruns[2];
  double rerun_time = 0;  ///< of a further run of all forward nodes; infinite where that cannot be
  /// At most, while the forward nodes run and nothing but the output is wanted; by who holds the input.
  std::int64_t pass_bytes[2] = {0, 0};
  double pass_time = 0;  ///< of a further run for the output alone; infinite likewise
  std::vector<std::int32_t> pass_nodes;
  std::int64_t input_bytes = 0;
  /// What is held whatever the search chooses, gradients, pinned values and further sources: while the block's nodes
  /// run first, and when its backward part begins.
  std::int64_t first_run_bytes = 0, entry_bytes = 0;
};

/// A chain of blocks from cut_into_blocks, and what two blocks can do together that they cannot do one by one: keep
/// something of the second and not its input, which is computed again from the first's. pairs[i] are blocks i + 1 and
/// i + 2, with such options only.
struct ChainFigures {
  std::vector<BlockFigures> blocks, pairs;
};
/// Equal blocks are looked at once.
ChainFigures chain_figures(const RecomputeProblem& problem, const std::vector<ForwardBlock>& blocks);

}  // namespace trainer
