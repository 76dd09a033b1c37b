#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/preprocessing.h"
#include "engine/train/files/frozen_checksum.h"
#include "engine/train/files/safetensors.h"
#include "engine/train/files/saved_tensors.h"

namespace trainer {

// Note [Checkpoints]
// ~~~~~~~~~~~~~~~~~~
// <output>/checkpoints/step-00000123/ holds a run after step 123:
//
//   model.safetensors      parameters and running statistics under their names, in PyTorch's shapes; of a run that
//                          averages them the averages, which are the model
//   optimizer.safetensors  momentum and moments in the same shapes, named as the program's buffers:
//                          "fc.weight.momentum" (8-bit moments: Note [Orders in files] in saved_tensors.h); the loss
//                          scale; what is averaged, as it is trained on: "fc.weight.unaveraged"
//   state.json             everything else, and sizes and CRC-32 of the two files and of itself
//
// Several ranks may have written more files in their place: Note [Sharded checkpoints] in sharded_checkpoint.h.
//
// It is written under a name that begins with a dot, flushed, and renamed, so a name without a dot is a whole
// checkpoint. `latest` and `best` beside it are links. What a killed run left behind is removed at the next start.

inline constexpr const char* model_file = "model.safetensors";

/// Where a run stood when the stage began that it is in.
struct StageBegin {
  std::size_t index = 0;  ///< in Experiment::stages
  std::string name;       ///< of the stage; empty: the run has no stages
  std::int64_t step = 0, pass = 0, samples = 0, epoch = 0;
  /// OptimizerConfig::updates_before of the stage.
  std::map<std::string, std::int64_t> updates_before;
};

/// A run between two steps, but for its tensors.
struct TrainingState {
  StageBegin stage = {};
  std::int64_t step = 0;         ///< completed; counts the optimizer's updates too
  std::int64_t pass = 0;         ///< micro-batches completed: keys dropout
  std::int64_t samples = 0;      ///< trained on
  bool evaluated = true;         ///< the evaluation due after `step` is done
  std::int64_t num_samples = 0;  ///< in the training data
  /// Dataset::content_crc32 of the training and the validation data; nothing where it has none, and in checkpoints of
  /// before it was saved.
  std::optional<std::uint32_t> train_crc32{}, validation_crc32{};
  std::string device{};  ///< what computed, with its number of threads; empty in checkpoints of before it was saved
  std::optional<double> best_value;
  std::int64_t best_step = 0;
  std::optional<double> stopping_value;  ///< what early stopping compares with
  std::int64_t evaluations_without_improvement = 0;
  /// Overrides that a run was adapted to (memory.on_oom: adapt), and the configuration, resolved as JSON, that it was
  /// given before; both empty where it was not.
  std::vector<std::string> adapted{};
  std::string given_config{};
  Preprocessing preprocessing{};         ///< of the data; empty in checkpoints of before it was saved
  std::vector<FrozenChecksum> frozen{};  ///< of the networks of losses on features
};

/// A checkpoint whose description was read and checked, and whose files have the sizes and checksums it states.
struct Checkpoint {
  std::string path;
  TrainingState state;
  std::string config_json;           ///< resolved; where the run was adapted, as adapted
  std::string model{}, optimizer{};  ///< paths of their tensors: a safetensors file, or the index of several
  std::string skipped{};             ///< what was wrong with a newer one that was passed over; empty where none was

  /// As the run was started, whatever it was adapted to.
  const std::string& given_config() const { return state.adapted.empty() ? config_json : state.given_config; }
};

/// What is told of one that is damaged, foreign or not of the run that asks for it.
DataError unusable_checkpoint(const std::string& path, std::string_view why);

/// Result of saving: a path, or the parameter that keeps it from being worth saving.
struct SavedCheckpoint {
  std::string path;
  std::int32_t non_finite_parameter = -1;  ///< nothing was written then
};

/// Saves under `directory` (made where missing) as step-<state.step>, see Note [Checkpoints]. Parameters that are not
/// finite are refused. Tensors go through `memory`, which has room for the largest piece (Note [Pieces] in
/// tensor_pieces.h). Throws DataError where the disk refuses.
SavedCheckpoint save_checkpoint(const std::string& directory, const TrainingState& state, const Experiment& experiment,
                                const std::string& trainer_version, const SavedTensors& tensors, PieceMemory& memory);

/// Reads and checks a checkpoint directory: every value by itself (those that depend on the run: resumed_state.h).
/// Throws DataError that says what is damaged or foreign. `ranks`, where not null, all see the folder and call it
/// alike: each compares checksums of its share of the files, and all throw what the lowest has found.
Checkpoint read_checkpoint(const std::string& path, Communicator* ranks = nullptr);

/// Whether a folder has a checkpoint's description, of any version; DataError where a damaged file stands in its place.
bool is_checkpoint(const std::string& folder);
/// As read_checkpoint, for what only uses the model: the optimizer's files are not looked at, and `optimizer` is empty.
Checkpoint read_model_of_checkpoint(const std::string& path);

/// Fills parameters, running statistics and the optimizer's state; of what ranks hold parts of, pieces without any of
/// this rank's are not read. Names and shapes must be the program's, all of them, and the loss scale one that such a
/// run can have. Throws DataError.
void restore_checkpoint(const Checkpoint& checkpoint, Executor& executor);

}  // namespace trainer
