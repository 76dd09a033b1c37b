#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/train/events.h"
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
  /// For runs of programs with the tensors of `program`. `directory` must outlive it. Throws HostOutOfMemory.
  ProgressSaver(const Program& program, const RunDirectory& directory, const std::string& trainer_version);

  /// Writes a checkpoint, the events before it first, and tells of it. Where a parameter is not finite nothing is
  /// saved, and its number is returned; else -1. Throws DataError where the disk refuses.
  std::int32_t save(RunProgress& progress, const Experiment& experiment, const SavedTensors& tensors,
                    EventSink& events);
  /// Writes the configuration, the first time.
  void save_config(RunProgress& progress) const;
  /// For pieces of tensors on their way to files, or from them while none is saved.
  PieceMemory& memory() { return memory_; }

 private:
  const RunDirectory& directory_;
  const std::string trainer_version_;
  PieceMemory memory_;
};

}  // namespace trainer
