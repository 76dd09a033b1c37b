#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/device/communicator.h"
#include "engine/train/events.h"
#include "engine/train/executor.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/run_directory.h"

namespace trainer {

/// Means of an evaluation or a step, from the device's loss statistics.
struct LossSummary {
  double loss = 0;
  std::optional<double> accuracy, top5;
  LossTerms terms = {};
  CountedMetrics counted = {};
  bool averaged = false;  ///< of the average of the weights

  /// Nothing where it was not found.
  std::optional<double> value_of(Metric metric) const;
};

/// What makes token counts of samples.
struct TokenRates {
  std::int64_t tokens_per_sample = 0;  ///< 0: samples are no tokens
  double flops_per_sample = 0;
  std::optional<double> peak_flops_per_second{};

  /// Of samples that took that long, `seen` of them since step 0; nothing where they are no tokens.
  std::optional<TokenCount> count(std::int64_t samples, std::int64_t seen, double seconds) const;
};

/// What a run has reached. Outlives the training loops that move it on.
struct RunProgress {
  TrainingState state;
  std::int64_t saved_step = -1;  ///< of the newest checkpoint written or resumed from
  bool saved_evaluated = true;   ///< its state's `evaluated`
  std::string last_checkpoint;
  std::string config_yaml;  ///< for the output folder: what the run was given, resolved
  bool wrote_config = false;
  bool stopped_early = false;

  // Of this run, not of one that it resumed.
  std::int64_t trained_samples = 0;
  double training_seconds = 0, data_seconds = 0;
  std::int64_t peak_used = 0;
  std::int64_t num_skipped = 0;  ///< updates
  std::int64_t num_warnings = 0;
  std::optional<LossSummary> last_evaluation;
  TokenRates token_rates{};
  double last_loss = 0;

  /// Goes on from what was loaded.
  void resume(const TrainingState& loaded);
  bool is_saved() const { return saved_step == state.step && saved_evaluated == state.evaluated; }
  /// What is reached is in the newest checkpoint.
  void note_saved() {
    saved_step = state.step;
    saved_evaluated = state.evaluated;
  }
  /// Its numbers for the end event.
  void fill(EndEvent& event) const;
};

/// Saves what a run has reached as checkpoints of its folder. Has all the memory it needs from the start, but for some
/// kilobytes: a run that finds no memory left can still be saved.
class ProgressSaver {
 public:
  /// For runs of programs with the tensors of `program`. `directory` and `ranks` must outlive it; of ranks (null: there
  /// is one) each has one. `is_sharded`: they write checkpoints together (Note [Sharded checkpoints] in
  /// files/sharded_checkpoint.h), else rank 0 does. Throws HostOutOfMemory.
  ProgressSaver(const Program& program, const RunDirectory& directory, const std::string& trainer_version,
                Communicator* ranks = nullptr, bool is_sharded = false);

  /// Writes a checkpoint, as all ranks do alike, the events before it first, and tells of it, both on rank 0. Where a
  /// parameter is not finite nothing is saved, and its number is returned, on a rank that looks; else -1. Throws
  /// DataError where the disk refuses.
  std::int32_t save(RunProgress& progress, const Experiment& experiment, Executor& executor, EventSink& events);
  /// The same by rank 0 alone, of tensors that it can read without the others.
  std::int32_t save_alone(RunProgress& progress, const Experiment& experiment, const SavedTensors& tensors,
                          EventSink& events);
  /// Writes the configuration, the first time, on rank 0.
  void save_config(RunProgress& progress) const;
  /// For pieces of tensors on their way to files, or from them while none is saved.
  PieceMemory& memory() { return memory_; }

 private:
  bool leads() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  template <typename Save>
  std::int32_t save_and_tell(RunProgress& progress, const Experiment& experiment, EventSink& events, const Save& save);

  const RunDirectory& directory_;
  const std::string trainer_version_;
  Communicator* const ranks_;
  const bool is_sharded_;
  PieceMemory memory_;
  std::optional<PieceMemory> given_;  ///< what other ranks write
};

}  // namespace trainer
