#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/frozen_weights.h"
#include "engine/train/files/saved_tensors.h"
#include "engine/train/run_stages.h"
#include "engine/train/run_start.h"

namespace trainer {

// Note [Between stages]
// ~~~~~~~~~~~~~~~~~~~~~
// Each stage has a program, an allocator and an executor of its own. Between two of them what goes on, parameters and
// the optimizer's state that continues, waits in host memory, and everything else goes back to the device, segments and
// fragments too: the next stage finds the memory as the first one did, so it holds what its plan says, whatever was
// before it. On a device whose memory is the host's that is a copy more of them for a moment, when the stage before has
// given back its activations and the next has none yet.
//
// A stage that is not purged (`purge: false`) begins with what the allocator of the stage before has cached, in a new
// allocator over the same source (Note [Cached segments] in engine/memory/caching_allocator.h); everything else of it
// is as between any two stages. A segment of placed layouts goes back, since it has the places of one program. The
// stage is compiled and planned for that cache (MemoryConfig::kept), or purged after all where it does not fit beside
// it (settle_experiment.h): before the first stage for what the plan of the stage before leaves, and when it begins for
// what that has really left, which differs where it stopped early. A process that begins with the stage, by --from or
// resumed, also behind the last step of the stage before, has no cache to begin with, and a run that was adapted to
// less memory purges; both reserve otherwise and compute the same.
//
// The optimizer's state goes on with `optimizer: keep`, or where the stage does not freeze otherwise; fastai clears it
// whenever layers are frozen or unfrozen, since means of gradients from before say little of what is trained now. What
// is trained for the first time begins anew: its bias corrections count from there (UpdatePace::updates_before).
//
// Steps, batches, samples and epochs count on through all stages, so that no dropout and no order of samples comes
// again; the schedule of a stage is over its own steps. A stage ends with a checkpoint, so that what ends a later one
// loses none before it.

/// A stage of a run as it is trained; the run itself, where it has no stages.
struct RunningStage {
  const StageConfig* config = nullptr;  ///< null: the run has no stages
  Experiment asked;                     ///< before anything it leaves open was settled
  Experiment given;                     ///< as the run goes on, but for what it was adapted to
  std::vector<std::string> adapted;     ///< of the run that is resumed
  LoadedData data;
  RunSurroundings surroundings;
  std::int64_t capacity = 0;
  /// The least for which a plan showed that the run fits.
  std::int64_t planned_capacity = std::numeric_limits<std::int64_t>::max();
  std::int64_t planned_first_placed_step = -1, planned_peak_reserved = 0;
  std::shared_ptr<const CachedSegments> planned_left;  ///< MemoryPlan::left_cached; null: not planned
  bool places_are_told = false;      ///< that layouts are placed, or that the run goes on in another way
  std::int64_t planned_touched = 0;  ///< by what is compiled; 0: not planned
  std::optional<CategoryBytes> planned_by_category;  ///< at the peak, by what is compiled; nothing: not planned
  std::unique_ptr<const CompiledExperiment> compiled;
  std::optional<FrozenWeights> frozen;
};

/// Loads the data of a stage and compiles it, as `checkpoint` goes on where that is not null. `updates_before`:
/// OptimizerConfig. `kept`: what of the stage before is held and goes on into it; may be null. `ranks`: all call it at
/// the same place, and have one cut into stages of a pipeline (with_agreed_cut); null: there is one rank. Throws as
/// run_training.
std::unique_ptr<RunningStage> prepare_stage(RunStages& stages, std::size_t index, const Checkpoint* checkpoint,
                                            const std::map<std::string, std::int64_t>& updates_before, Device& device,
                                            std::shared_ptr<const CachedSegments> kept, Communicator* ranks);
/// The same of a stage that is only planned: no data is loaded. `held`: what of `kept` is held now. `ranks`: null also
/// where not all call it, and each cuts for its own capacity.
std::unique_ptr<RunningStage> describe_stage(const RunStages& stages, std::size_t index, Device& device,
                                             std::shared_ptr<const CachedSegments> kept, std::int64_t held,
                                             Communicator* ranks);

/// What is to be known of a stage before it is trained: sentences.
std::vector<std::string> warnings_of(const RunningStage& stage);

/// Of the program that the stage runs.
ProcessMemory process_memory_of(const RunningStage& stage, const Device& device);

/// Throws ConfigError where the stage says `optimizer: keep`, and its optimizer's state is another than that of
/// `before`.
void check_state_goes_on(const Experiment& before, const StageConfig& stage);

/// Which parameters' state of the optimizer goes on into a stage.
struct StateContinuation {
  std::map<std::string, std::int64_t> updates_before;  ///< by trained parameter, as OptimizerConfig has it
  std::int64_t num_continued = 0, num_begun = 0;       ///< parameters
  bool continues(const std::string& parameter) const { return kept.contains(parameter); }
  std::set<std::string> kept;
};

/// Of the stage `next`, whose program is `after`, behind the stage `trained`, which began with `begin` and ended with
/// `held` after `step` steps of the run.
StateContinuation continue_state(const HeldTensors& held, const CompiledExperiment& trained, const Program& after,
                                 const StageConfig& next, const StageBegin& begin, std::int64_t step);

/// Throws DataError where the checkpoint is of another stage than the configuration has in its place, and ConfigError
/// where the options leave that stage out.
void check_stage_of(const Checkpoint& checkpoint, const RunStages& stages, const std::string& resumption);

}  // namespace trainer
