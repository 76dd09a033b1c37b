#pragma once

#include <cstdint>

namespace trainer {

// Note [Parts of a batch]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Ranks that train together share a batch: of its s samples each of n ranks takes s / n, rounded down, one behind the
// other, and the first s mod n of them one more. So each sample is taken once, what a step learns from does not depend
// on how many ranks there are, rank 0 has the most, and no rank more of a smaller batch. A last batch of fewer samples
// than ranks leaves some of them without any.
//
// With parallel.deterministic a batch has a number of parts that does not depend on how many ranks there are, and a
// rank takes several of them, one at a time (Note [Sums of parts] in engine/program/part_sums.h). A pipeline cuts a
// rank's part once more, in the same way, into micro-batches (Note [Pipelines] in
// engine/program/pipeline/stage_graph.h).

/// Samples of a batch, from its first on.
struct BatchPart {
  std::int64_t begin = 0, count = 0;
};

/// The part of one of `num_ranks` ranks in a batch of so many samples.
constexpr BatchPart part_of_batch(std::int64_t num_samples, std::int64_t num_ranks, std::int64_t rank) {
  const std::int64_t each = num_samples / num_ranks, one_more = num_samples % num_ranks;
  return {rank * each + (rank < one_more ? rank : one_more), each + (rank < one_more ? 1 : 0)};
}

/// Which parts of each batch one rank takes, one at a time.
struct BatchParts {
  std::int64_t num_parts = 1;          ///< of a batch
  std::int64_t num_own = 1;            ///< that the rank takes, or pieces of them
  std::int64_t first = 0, stride = 1;  ///< first, first + stride, …
  std::int64_t num_pieces = 1;         ///< that each part is cut into

  /// The index-th of them, of which the first has the most samples.
  constexpr BatchPart own(std::int64_t num_samples, std::int64_t index = 0) const {
    const BatchPart part = part_of_batch(num_samples, num_parts, first + index / num_pieces * stride);
    const BatchPart piece = part_of_batch(part.count, num_pieces, index % num_pieces);
    return {part.begin + piece.begin, piece.count};
  }
};

}  // namespace trainer
