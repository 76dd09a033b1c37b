#pragma once

#include <array>
#include <cstdint>

#include "datasets/dataset.h"
#include "datasets/sample_stages.h"
#include "datasets/sampler.h"

namespace trainer {

// Note [Timing data]
// ~~~~~~~~~~~~~~~~~~
// Training samples are read into batches as training reads them, by a BatchReader, and thrown away. A first pass by all
// threads, which is not timed, finds which samples are read: those of the first epoch, from its beginning, that it
// comes to. The timed ones read these again and again, so that their files come from the system's cache where that
// holds them; what the system had to fetch from storage all the same is counted. What is drawn for a sample differs
// from epoch to epoch as it does in training.

/// How fast so many threads read samples into batches.
struct ReadingRate {
  int num_threads = 1;
  std::int64_t num_samples = 0;
  double seconds = 0;

  double samples_per_second() const { return seconds > 0 ? static_cast<double>(num_samples) / seconds : 0; }
};

struct DataTiming {
  std::int64_t num_distinct = 0;   ///< samples that were read, again and again
  std::int64_t storage_bytes = 0;  ///< that the system fetched from storage meanwhile; what it cached is not counted
  ReadingRate one_thread, all_threads;
  /// Of one sample, by one thread: by SampleStage; where reading is one stage, all of it is `read`.
  std::array<double, num_sample_stages> stage_seconds{};
  double reducible_share = 0;  ///< of samples as StageTimes::num_reducible counts them
};

/// Reads samples of `dataset` in the order that `order` says for about `seconds`, then for as long by one thread and
/// for as long by `num_threads` (where that is one, both rates are the same). Batches are as large as `order` says, or
/// smaller where one would take long. Throws DataError where a sample cannot be read.
DataTiming time_data(const Dataset& dataset, const SamplerOptions& order, int num_threads, double seconds);

}  // namespace trainer
