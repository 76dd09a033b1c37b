#pragma once

#include <cstdint>
#include <vector>

#include "engine/batch_part.h"
#include "engine/errors.h"

namespace trainer {

struct SamplerOptions {
  std::int64_t num_samples = 0;
  std::int64_t batch_size = 1;  ///< of a full batch; more than there are samples: all of them
  bool shuffle = false;
  bool drop_last = false;  ///< leave out the last batch of an epoch where it is not full
  std::uint64_t seed = 0;
  /// Above 0, with `shuffle`: samples that lie near each other stay near in the order: Note [Windows of samples].
  std::int64_t shuffle_window = 0;
  /// Which parts of each batch it gives, as batches one behind the other: Note [Parts of a batch] in
  /// engine/batch_part.h.
  BatchParts parts = {};
};

// Note [Windows of samples]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Files that are read in order are read fast, and a full shuffle jumps. With a window of N samples, stretches of N / 4
// samples in the order of the files come in a random order, and within each N samples of that order all are shuffled:
// so what is read at a time lies in four places, which are others in each epoch, and no sample is held in memory for
// it.

/// Which samples make up which batch. The order of an epoch is a function of (seed, epoch) alone, so a run resumes
/// anywhere from the epoch and the number of the batch.
class Sampler {
 public:
  /// ConfigError where drop_last leaves no batch at all.
  explicit Sampler(const SamplerOptions& options);

  std::int64_t num_samples() const { return options_.num_samples; }
  /// Samples of the largest part of a batch that it gives, at most num_samples().
  std::int64_t batch_size() const { return options_.parts.own(options_.batch_size).count; }
  /// Parts of batches that it gives in an epoch: all that it gives of one batch, then those of the next.
  std::int64_t num_batches() const { return num_whole_batches() * options_.parts.num_own; }
  /// Samples of one of them.
  std::int64_t size_of_batch(std::int64_t batch) const { return part_of(batch).count; }
  /// Their first position in the order of the epoch.
  std::int64_t begin_of_batch(std::int64_t batch) const {
    return begin_of_whole_batch(whole_of(batch)) + part_of(batch).begin;
  }
  /// The batch that it is a part of.
  std::int64_t whole_of(std::int64_t batch) const { return batch / options_.parts.num_own; }
  /// The first position of a batch that all ranks share.
  std::int64_t begin_of_whole_batch(std::int64_t batch) const { return batch * options_.batch_size; }

  /// The order of an epoch, num_samples() indices; `order` is reused.
  void order_of_epoch(std::int64_t epoch, std::vector<std::uint32_t>& order) const;

 private:
  BatchPart part_of(std::int64_t batch) const {
    return options_.parts.own(whole_size(whole_of(batch)), batch % options_.parts.num_own);
  }
  std::int64_t num_whole_batches() const;
  std::int64_t whole_size(std::int64_t batch) const;
  void shuffle_in_windows(std::uint32_t epoch, std::vector<std::uint32_t>& order) const;

  SamplerOptions options_;
};

}  // namespace trainer
