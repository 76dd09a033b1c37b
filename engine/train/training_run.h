#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"
#include "engine/train/events.h"

namespace trainer {

struct HostBatch;    // datasets/batch_reader.h
class WeightsWatch;  // weights_watch.h

/// Looks at the batches of evaluations.
class EvaluationWatch {
 public:
  virtual ~EvaluationWatch() = default;
  /// A batch comes next; its memory is not its own any more when this returns.
  virtual void begin(const HostBatch& batch) = 0;
  /// It is queued, and nothing else is until this returns.
  virtual void end() = 0;
};

/// What the outside may ask of a run while it goes on; set from signal handlers.
struct Interruption {
  std::atomic<int> requests{0};  ///< 1: finish the step, checkpoint, stop
};

enum class RunStatus : std::uint8_t { done, out_of_memory, diverged, interrupted };

struct TrainingOptions {
  bool resume = false;                        ///< continue from the newest checkpoint under experiment.output
  std::string resume_from;                    ///< or from this one
  bool accept_previous = false;               ///< a damaged newest checkpoint may be skipped
  bool overwrite = false;                     ///< start anew in an output directory that holds a run
  std::string from_stage, until_stage;        ///< names of the first and the last that is trained; empty: of all
  bool debug_sync = false;                    ///< wait after each call, so that a fault names its op and layer
  std::string trainer_version;                ///< recorded in checkpoints
  double short_step_seconds = 5e-3;           ///< steps of less may be started several at once (Note [Running ahead])
  MachineRates rates = assumed_cpu_rates(1);  ///< by which changes are compared where memory runs out
  /// The command that resumes without `from_stage`, for what refuses it; may be empty.
  std::string resumption{};
  /// Of the device's products, as TokenCount::mfu compares with; nothing where it is not known.
  std::optional<double> peak_flops_per_second{};
  /// The learning rate of a step, in place of the schedule's; empty: the schedule's.
  std::function<double(std::int64_t step)> learning_rate{};
  EvaluationWatch* evaluation_watch = nullptr;  ///< may be none
  WeightsWatch* weights_watch = nullptr;        ///< of logging.histograms_every, on rank 0; may be none
  /// Of the ranks that experiment.parallel speaks of, of which this is experiment.parallel.rank; null: there is one.
  Communicator* ranks = nullptr;
  std::optional<Carrier> carrier{};  ///< between them
};

/// Runs the experiment on the device from start (or checkpoint) to end, emitting events; its stages one after the
/// other, each in memory that was purged (Note [Between stages] in running_stage.h), where all of them fit.
/// Out-of-memory, divergence and interruption are results, not exceptions; after any of them everything allocated has
/// been given back and the last checkpoint is readable. A step that failed for lack of memory loses nothing: what was
/// trained before it is saved. What the plan shows not to fit is `out_of_memory` too, before the first step (unless
/// memory.preflight is off). A run that `overwrite` was to replace stays until this one has a checkpoint: Note
/// [Replacing a run]. Where the host has no memory left, what was trained is saved too, unless that came in the middle
/// of a step, the end event says "oom", and HostOutOfMemory is thrown. With memory.on_oom: adapt they come only where
/// nothing fits that trains on the same samples: see Note [Adapting a run] in engine/train/adaptation.h. The output
/// folder is made before the start event, config.yaml in it, as given, with the first completed step. Throws
/// ConfigError, DataError, DeviceError; DataError too where the output folder holds another run, or the experiment's
/// own file as config.yaml. `data` is what the experiment's own keys say; other data of stages is loaded in its place.
RunStatus run_training(const Experiment& experiment, LoadedData data, Device& device, const TrainingOptions& options,
                       Interruption& interruption, EventSink& events);

}  // namespace trainer
