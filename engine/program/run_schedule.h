#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch_part.h"
#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// The parts of batches that the rank of `parallel` takes.
BatchParts parts_of(const ParallelConfig& parallel);

/// How a run is cut into epochs, steps and micro-batches; a pure function of configuration and data sizes, shared by
/// the plan and the training loop. Steps count from 1. Batches are those that all ranks share, but for what `own` says:
/// Note [Parts of a batch] in engine/batch_part.h.
class RunSchedule {
 public:
  RunSchedule(const Experiment& experiment, const DataDescription& data);

  /// One update. Its micro-batches have batch_size() samples each, but for an odd last one.
  struct Step {
    std::int64_t epoch = 0;        ///< from 0
    std::int64_t first_batch = 0;  ///< index of its first micro-batch in the epoch
    std::int64_t num_micro_batches = 0;
    std::int64_t num_samples = 0;
    bool last_is_odd = false;  ///< the last micro-batch has odd_batch_size() samples
    bool ends_epoch = false;
    bool evaluates = false;  ///< an evaluation follows
  };
  Step step(std::int64_t step) const;
  /// How many steps directly after `step` have its shape and, like it, no evaluation behind them.
  std::int64_t num_steps_alike(std::int64_t step) const;
  /// Two steps of equal phase at which an epoch starts have the same sequence of steps and evaluations ahead of them,
  /// but for the evaluation after the last step.
  std::int64_t evaluation_phase(std::int64_t step) const { return eval_every_ > 0 ? step % eval_every_ : 0; }

  /// What share of a weight enters its average with that step: 1 copies it, 0 leaves the average as it is. As torch's
  /// AveragedModel: the first step that counts is copied, the k-th enters with 1 − decay (ema) or 1 / k (swa).
  double average_share(std::int64_t step) const;
  /// How many steps of the run count in it.
  std::int64_t num_averaged() const;

  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  std::int64_t batch_size() const { return batch_size_; }
  /// Samples of the odd last micro-batch of an epoch; 0: there is none.
  std::int64_t odd_batch_size() const { return odd_batch_size_; }
  std::int64_t eval_batch_size() const { return eval_batch_size_; }
  std::int64_t odd_eval_batch_size() const { return odd_eval_batch_size_; }
  /// Whole evaluation batches in one evaluation; 0 with odd_eval_batch_size() = 0: there is none.
  std::int64_t num_whole_eval_batches() const { return num_whole_eval_batches_; }
  bool evaluates() const { return num_whole_eval_batches_ + (odd_eval_batch_size_ > 0) > 0; }
  /// A run of no steps evaluates the weights it begins with.
  bool evaluates_initially() const { return total_steps_ == 0 && evaluates(); }
  bool accumulates() const { return accumulates_; }

  /// Of a batch of so many samples, those that this rank takes at a time, in its first part; 0: none.
  std::int64_t own(std::int64_t num_samples) const { return parts_.own(num_samples).count; }
  /// The parts of each batch that this rank takes: one, but with parallel.deterministic.
  const BatchParts& parts() const { return parts_; }
  bool is_cut_into_parts() const { return is_cut_; }
  /// The sizes of passes over batches of so many samples each, the largest first; with 0 where a part has no sample.
  std::vector<std::int64_t> pass_sizes(std::span<const std::int64_t> batch_sizes) const;
  /// The most that this rank takes at a time in training.
  std::int64_t own_batch_size() const { return own(batch_size_); }
  /// Of the rank that takes the largest part of a whole batch, what it computes at a time: of no rank is it more.
  std::int64_t largest_pass_size() const {
    BatchParts of_first = parts_;
    of_first.first = 0;
    return of_first.own(batch_size_).count;
  }
  std::int64_t own_eval_batch_size() const { return own(eval_batch_size_); }
  /// Whether there is a part of an evaluated batch that this rank takes and that has no sample.
  bool lacks_evaluated_samples() const {
    const auto lacks = [&](std::int64_t num_samples) { return parts_.own(num_samples, parts_.num_own - 1).count == 0; };
    return (num_whole_eval_batches_ > 0 && lacks(eval_batch_size_)) ||
           (odd_eval_batch_size_ > 0 && lacks(odd_eval_batch_size_));
  }
  /// A pass is one part of a micro-batch. Of a step this rank makes:
  std::int64_t num_passes(const Step& step) const { return step.num_micro_batches * parts_.num_own; }
  /// The first pass of a micro-batch of an epoch, as the reader counts them.
  std::int64_t first_pass(std::int64_t batch) const { return batch * parts_.num_own; }
  /// The micro-batch of a step of which a pass takes a part, and which one of its own that is, from 0.
  std::int64_t micro_batch_of(std::int64_t pass) const { return pass / parts_.num_own; }
  std::int64_t part_of(std::int64_t pass) const { return pass % parts_.num_own; }
  /// The samples of that pass, and where they begin in the micro-batch.
  BatchPart own_of_pass(const Step& step, std::int64_t pass) const {
    const bool is_odd = step.last_is_odd && micro_batch_of(pass) + 1 == step.num_micro_batches;
    return parts_.own(is_odd ? odd_batch_size_ : batch_size_, part_of(pass));
  }

 private:
  std::int64_t batch_size_ = 0, odd_batch_size_ = 0, batches_per_epoch_ = 0, steps_per_epoch_ = 0, total_steps_ = 0;
  std::int64_t eval_batch_size_ = 0, odd_eval_batch_size_ = 0, num_whole_eval_batches_ = 0;
  std::int64_t accumulation_steps_ = 1, eval_every_ = 0;
  bool accumulates_ = false;
  BatchParts parts_;
  bool is_cut_ = false;
  AverageConfig average_;
  std::int64_t average_after_ = 0, average_every_ = 1;  ///< in steps
};

}  // namespace trainer
