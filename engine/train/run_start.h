#pragma once

#include <optional>
#include <string>

#include "engine/train/run_directory.h"
#include "engine/train/training_run.h"

namespace trainer {

/// Where a run starts.
struct RunStart {
  std::optional<Checkpoint> checkpoint;  ///< to continue from
  bool replaces_run = false;             ///< the run that the output folder holds goes
};

/// Reads the checkpoint that the options ask for. DataError where there is none that can be used, and where the output
/// folder holds another run, or the configuration itself.
RunStart choose_start(const RunDirectory& directory, const std::string& config_path, const TrainingOptions& options);

/// A resumed run must compute what the first one would have: throws DataError that names what differs.
void refuse_drift(const Checkpoint& checkpoint, const Experiment& experiment, const LoadedData& data);

}  // namespace trainer
