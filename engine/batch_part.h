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
// rank takes several of them, one at a time (Note [Sums of parts] in engine/program/part_sums.h).

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
  std::int64_t num_own = 1;            ///< that the rank takes
  std::int64_t first = 0, stride = 1;  ///< first, first + stride, …

  /// The index-th of them, of which the first has the most samples.
  constexpr BatchPart own(std::int64_t num_samples, std::int64_t index = 0) const {
    return part_of_batch(num_samples, num_parts, first + index * stride);
  }
};

}  // namespace trainer
