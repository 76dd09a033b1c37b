#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/train/run_directory.h"
#include "engine/train/training_run.h"

namespace trainer {

/// Where a run starts.
struct RunStart {
  std::optional<Checkpoint> checkpoint;  ///< to continue from
  bool continues_own = false;            ///< it is one of the output folder
  bool replaces_run = false;             ///< the run that the output folder holds goes
};

/// What a run trains.
struct RunExperiment {
  Experiment given;
  /// `given` with the overrides `adapted`, where the run that is resumed was adapted to them; else the same.
  Experiment experiment;
  std::vector<std::string> adapted;
};

/// Reads the checkpoint that the options ask for. DataError where there is none that can be used, and where the output
/// folder holds another run, or the configuration itself.
RunStart choose_start(const RunDirectory& directory, const std::string& config_path, const TrainingOptions& options);

/// A resumed run computes what the first one would have, as it was adapted to (see Note [Adapting a run]). Throws
/// DataError that names what differs, where something does.
RunExperiment resumed_experiment(const Checkpoint& checkpoint, const Experiment& asked, const LoadedData& data);

}  // namespace trainer
