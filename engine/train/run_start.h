#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/train/files/run_directory.h"
#include "engine/train/training_run.h"

namespace trainer {

/// Where a run starts.
struct RunStart {
  std::optional<Checkpoint> checkpoint;  ///< to continue from
  bool continues_own = false;            ///< it is one of the output folder
  bool replaces_run = false;             ///< the run that the output folder holds goes: Note [Replacing a run]
};

/// What a run trains.
struct RunExperiment {
  Experiment given;
  /// `given` with the overrides `adapted`, where the run that is resumed was adapted to them; else the same.
  Experiment experiment;
  std::vector<std::string> adapted;
};

/// What tells a run's numbers beside its configuration, for its checkpoints: the data's contents and what computes.
struct RunSurroundings {
  std::optional<std::uint32_t> train_crc32, validation_crc32;  ///< Dataset::content_crc32
  std::string device;
};

/// Reads all of the data once.
RunSurroundings surroundings_of(const LoadedData& data, const Device& device);

/// Reads the checkpoint that the options ask for. DataError where there is none that can be used, where newer ones of
/// its run would go unasked, and where the output folder holds another run, the configuration itself, or foreign files
/// that the run would replace. The folder is this process's (RunLock). `readers`: ranks that all see the output folder
/// and share reading the newest checkpoint in it; null: each reads all of it.
RunStart choose_start(const RunDirectory& directory, const std::string& config_path, const TrainingOptions& options,
                      Communicator* readers = nullptr);

/// A resumed run computes what the first one would have, as it was adapted to (see Note [Adapting a run]). Throws
/// DataError that names what differs, where something does: a key, or the content of the training data.
RunExperiment resumed_experiment(const Checkpoint& checkpoint, const Experiment& asked, const LoadedData& data,
                                 const RunSurroundings& surroundings);

/// What differs from the run that wrote the checkpoint and does not keep this one from going on: other validation data,
/// and another device, number of threads or sharing of batches by ranks, which round sums otherwise.
std::vector<std::string> resumption_warnings(const Checkpoint& checkpoint, const Experiment& experiment,
                                             const RunSurroundings& surroundings);

}  // namespace trainer
