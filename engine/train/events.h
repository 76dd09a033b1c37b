#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/config/loss_terms.h"
#include "engine/device/device.h"
#include "engine/graph/preprocessing.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/change.h"
#include "engine/plan/search/diagnosis.h"
#include "engine/ranks/carrier.h"
#include "engine/train/counted_metrics.h"
#include "engine/train/files/weights_match.h"
#include "engine/train/pass_counts.h"
#include "engine/train/telling_process.h"

namespace trainer {

/// Where a run goes on from.
struct Resumption {
  std::int64_t step = 0;
  bool evaluated = true;  ///< the evaluation due behind the step is done
  bool trains = true;     ///< false where the run does not fit: nothing follows
};

/// Of a run on tokens: how many it trained on, and what they cost.
struct TokenCount {
  std::int64_t trained = 0;  ///< in the step, or by the run
  std::int64_t seen = 0;     ///< since step 0, also of the runs that this one resumed
  /// Model FLOPs utilization: engine/plan/model_flops.h; nothing where the peak of the device is not known.
  std::optional<double> mfu{};
};

struct StartEvent {
  const Experiment* experiment = nullptr;
  std::string device_kind, device_name;
  std::int64_t capacity = 0;
  AllocatorKind allocator = AllocatorKind::caching;  ///< also what memory.allocator: auto stands for
  std::int64_t first_placed_step = -1;  ///< as planned: Note [Placed layouts] in plan/placed_layouts.h; -1: none is
  std::int64_t num_parameters = 0, num_trained = 0;  ///< of the model; those of them that are not frozen
  std::int64_t total_steps = 0, steps_per_epoch = 0, first_step = 1;  ///< first_step > 1 after a resume
  std::int64_t batch_size = 0;                                        ///< of a micro-batch, as the run begins
  std::optional<std::int64_t> asked_batch_size{};  ///< train.batch_size, where it is a number: no less than batch_size
  std::string trainer_version{};
  std::string skipped_checkpoint;  ///< what is wrong with the newest one, where an older one was taken instead
  std::optional<Resumption> resumption{};
  bool leaves_former_run = false;  ///< one that was to be replaced stays, since this one does not fit
  /// Overrides beside `experiment` that the run goes on with, since the one it resumes was adapted to them.
  std::vector<std::string> adapted{};
  Preprocessing preprocessing{};                ///< of the data
  std::optional<WeightsMatch> weights{};        ///< what the run starts from (weights.file)
  std::vector<WeightsMatch> frozen{};           ///< what the frozen networks of its losses hold
  std::vector<NamedBytes> outside_allocator{};  ///< DeviceModel::outside_allocator
  std::optional<Carrier> carrier{};             ///< between ranks; nothing where there is one
  ProcessMemory process{};
  std::int64_t planned_touched = 0;  ///< MemoryPlan::peak_touched; 0 where nothing was planned (memory.preflight: off)
  std::optional<CategoryBytes>
      planned_by_category{};               ///< at the peak; nothing where nothing was planned, or it does not fit
  std::int64_t planned_peak_reserved = 0;  ///< of the stage that begins; 0 where it was not planned, or does not fit
  TellingProcess teller{};
  std::int64_t tokens_per_sample = 0;             ///< 0: samples are no tokens
  double flops_per_sample = 0;                    ///< of tokens: model_flops_of_sample
  std::optional<double> peak_flops_per_second{};  ///< of the device's products; nothing where it is not known
};

struct DeviceMemory {
  StepMemory step;
  std::int64_t device_used = 0, device_total = 0, num_alloc_retries = 0;
};

/// Means of the terms of a loss that is a sum, before their weights; none of one that is not.
struct LossTerms {
  std::array<double, most_loss_terms> values{};
  int count = 0;
};

struct StepEvent {
  std::int64_t step = 0, epoch = 0;  ///< step from 1, epoch from 1
  std::string_view stage = "train";  ///< its name; "train" of a run without stages; valid while the event is taken
  double loss = 0, learning_rate = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  DeviceMemory memory;
  double data_seconds = 0;                ///< that training waited for batches of it that were not read yet
  std::optional<double> loss_scale = {};  ///< behind the step; nothing where the loss is not scaled
  bool skipped = false;                   ///< a gradient was not finite: weights are as before, and the scale is lower
  LossTerms terms = {};
  std::optional<TokenCount> tokens = {};  ///< nothing where samples are no tokens
};

struct EvalEvent {
  std::int64_t step = 0, epoch = 0;
  std::string_view stage = "train";
  double loss = 0;
  std::optional<double> accuracy, top5;
  std::int64_t samples = 0;
  double seconds = 0;
  bool best = false;
  bool averaged = false;  ///< of the averages of the weights
  DeviceMemory memory;
  LossTerms terms = {};
  CountedMetrics counted = {};
  std::string target_unit{};  ///< target_unit() of the data's preprocessing
};

struct CheckpointEvent {
  std::int64_t step = 0;
  std::string path;
  double seconds = 0;
};

struct OutOfMemoryEvent {
  OutOfMemoryContext context;
  std::vector<Change> fixes;
  AllocatorKind allocator = AllocatorKind::caching;  ///< that the run had
  bool allocator_was_chosen = false;                 ///< memory.allocator: auto stood for it
  bool planned_does_not_fit_either = false;          ///< since it was chosen under this capacity
  // Who holds the rest of the device, as it was just after the failure.
  std::vector<NamedBytes> outside_allocator{};   ///< of this process
  std::vector<DeviceProcess> other_processes{};  ///< largest first
  std::int64_t device_total = 0;
  Diagnosis diagnosis{};
  std::string stage{};  ///< that does not fit; empty: the run has no stages
  std::int64_t rank = 0, num_ranks = 1;
  std::int64_t num_stages = 1;  ///< of the pipeline that the rank is of
  std::int64_t pipeline_stage = 0;
  std::string layers{};  ///< that its stage has: layers_of_stage
  bool is_first = true;  ///< the lowest of the ranks that do not fit, where all were planned before anything ran
};

struct DivergedEvent {
  std::int64_t step = 0;
  double loss = 0;            ///< finite where weights are not, which the step's update or an earlier one made so
  std::string layer, tensor;  ///< where the first non-finite value was found; "loss" where only the sum overflowed
};

/// memory.on_oom: adapt. The run goes on with `change`, from the step that did not fit.
struct AdaptEvent {
  std::int64_t step = 0;       ///< that is repeated; where an evaluation did not fit, the one before it
  OutOfMemoryContext context;  ///< what failed
  std::int64_t capacity = 0;   ///< that the run had
  Change change;  ///< planned for change.capacity, what there really is; changes nothing where that suffices
};

/// A stage of a run begins; memory as it is between it and the one before.
struct StageEvent {
  std::string name;
  std::size_t index = 0, count = 0;  ///< from 0
  std::int64_t first_step = 0, last_step = 0, steps_per_epoch = 0, batch_size = 0;
  std::int64_t num_parameters = 0, num_trained = 0;
  std::int64_t capacity = 0;
  AllocatorKind allocator = AllocatorKind::caching;
  std::int64_t planned_peak_reserved = 0;              ///< 0 where it was not planned (memory.preflight: off)
  std::optional<CategoryBytes> planned_by_category{};  ///< at the peak; likewise
  /// Parameters whose state of the optimizer goes on, and those that begin anew.
  std::int64_t num_continued = 0, num_begun = 0;
  /// What the device held before the first stage, at the end of the stage before, and once that was purged, or had
  /// released everything into the cache that this stage begins with (`purge: false`).
  struct Purge {
    std::int64_t allocated_before = 0, reserved_before = 0, allocated_after = 0, reserved_after = 0;
    std::int64_t used_baseline = 0, used_before = 0, used_after = 0;
    bool to_fit = false;  ///< in spite of `purge: false`: the stage does not fit beside what was cached
  };
  std::optional<Purge> purge{};  ///< nothing before the first stage that the process trains
};

/// What a run should not do and does; it goes on.
struct WarningEvent {
  std::int64_t step = 0;
  std::string message;
  std::string buffer{};  ///< that it is about; empty where it is about none
  std::int64_t num_bytes = 0;
};

struct EndEvent {
  std::string status;  ///< done | oom | interrupted | diverged | failed
  std::int64_t steps = 0;
  double seconds = 0, training_seconds = 0;
  double data_seconds = 0;  ///< sum of StepEvent::data_seconds
  std::int64_t samples = 0;
  std::optional<TokenCount> tokens = {};       ///< nothing where samples are no tokens
  std::optional<double> loss, accuracy, top5;  ///< of the last evaluation
  LossTerms terms = {};                        ///< likewise
  CountedMetrics counted = {};                 ///< likewise
  bool averaged = false;                       ///< likewise: EvalEvent::averaged
  std::string target_unit{};                   ///< target_unit() of the data's preprocessing
  std::optional<double> best_value;
  std::int64_t best_step = 0;
  bool stopped_early = false;
  std::int64_t skipped_updates = 0;  ///< StepEvent::skipped
  std::int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0, peak_used = 0;
  CategoryBytes peak_by_category{};  ///< at the highest allocated value
  PassCounts passes{};
  std::vector<NamedBytes> outside_allocator{};
  ProcessMemory process{};           ///< of the program that ran last
  std::int64_t planned_touched = 0;  ///< of that; 0 where it was not planned
  std::int64_t peak_resident = 0;    ///< measured: peak_resident_bytes() of engine/memory/machine_memory.h
  std::string output, last_checkpoint, error;
  std::string failed_events{};  ///< where the events go, since the run that was to be replaced comes back; else empty
  /// What an AdaptEvent told, in short.
  struct Adaptation {
    std::int64_t step = 0, capacity = 0;
    std::vector<std::string> set;
    NumbersEffect numbers = NumbersEffect::same_bits;
  };
  std::vector<Adaptation> adaptations{};
  /// A stage that the process trained, whole or in part.
  struct Stage {
    std::string name;
    std::int64_t steps = 0;
    double seconds = 0;
    /// Of the device's memory: what a step's end holds at most, beyond what was held before the stage, and the peaks.
    std::int64_t consumed = 0, peak_allocated = 0, peak_reserved = 0, planned_peak_reserved = 0;
    std::optional<double> loss{}, accuracy{};  ///< of its last evaluation
    bool stopped_early = false;
  };
  std::vector<Stage> stages{};              ///< none of a run without stages
  std::vector<std::string> device_notes{};  ///< Device::notes
  std::int64_t num_warnings = 0;
};

/// What a run tells. A sink that says something of every event visits it with an overload for each, so that a new one
/// without an overload does not compile; a sink of few asks for those by std::get_if.
using Event = std::variant<StartEvent, StageEvent, StepEvent, EvalEvent, CheckpointEvent, OutOfMemoryEvent, AdaptEvent,
                           WarningEvent, DivergedEvent, EndEvent>;

/// Calls come from the training thread, in order; a sink must not throw for lack of a terminal.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void take(const Event& event) = 0;
  /// Whatever keeps events on a disk has there what was told until now: a checkpoint follows, behind which none of it
  /// is told again. Throws DataError where the disk refuses.
  virtual void make_durable() {}
};

}  // namespace trainer
