#pragma once

#include <cstddef>
#include <string>

#include "datasets/dataset.h"
#include "engine/config/experiment.h"
#include "engine/train/training_run.h"

namespace trainer {

/// What a run trains one after the other: the stages of an experiment (Note [Stages] in engine/config/stages.h), or the
/// experiment itself as the only one. Holds the data of one of them.
class RunStages {
 public:
  /// `whole` must outlive it; `data` is what its own keys say. Throws ConfigError where the options name a stage that
  /// is not there.
  RunStages(const Experiment& whole, LoadedData data, const TrainingOptions& options);

  const Experiment& whole() const { return whole_; }
  /// Whether the experiment has stages, be it one.
  bool has_stages() const { return !whole_.stages.empty(); }
  std::size_t count() const { return has_stages() ? whole_.stages.size() : 1; }
  /// The first and the last that are trained.
  std::size_t first() const { return first_; }
  std::size_t last() const { return last_; }
  const Experiment& experiment(std::size_t stage) const {
    return has_stages() ? *whole_.stages[stage].experiment : whole_;
  }
  /// Null where there are no stages.
  const StageConfig* config(std::size_t stage) const { return has_stages() ? &whole_.stages[stage] : nullptr; }
  std::string name_of(std::size_t stage) const { return has_stages() ? whole_.stages[stage].name : ""; }

  /// The data of a stage: what is held where it is the same, else it is loaded in the place of that.
  const LoadedData& data_of(std::size_t stage);
  /// What it will be, without loading it.
  DataDescription description_of(std::size_t stage) const;
  /// Whether data_of() would load other data than it has.
  bool has_other_data(std::size_t stage) const { return key_of_data(experiment(stage)) != key_; }

 private:
  static std::string key_of_data(const Experiment& experiment);

  const Experiment& whole_;
  std::size_t first_ = 0, last_ = 0;
  std::string key_;  ///< of what is held
  LoadedData data_;
};

}  // namespace trainer
