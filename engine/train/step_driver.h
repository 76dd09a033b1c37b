#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/ops/loss_scale.h"
#include "engine/ops/loss_statistics.h"
#include "engine/train/session.h"

namespace trainer {

/// Of each term of the loss.
using LossStatistics = std::array<double, std::size_t{most_loss_terms} * num_loss_statistics>;

/// What the host reads of a step.
struct StepResult {
  LossStatistics statistics{};  ///< as many as the loss has terms
  LossScaleState loss_scale{};  ///< after the step; not set where the loss is not scaled
};

/// A step that was queued and whose result has not been read.
struct QueuedStep {
  std::int64_t number = 0;
  RunSchedule::Step step = {};
  StepScalars first_scalars = {};
  StepMemory memory = {};  ///< as it was laid out
  std::int64_t num_alloc_retries = 0;
  std::int64_t mark = -1;        ///< behind it; -1 while it waits to be started with others
  std::int64_t fed_number = -1;  ///< where it was fed; else its result goes to a slot
  double data_seconds = 0;       ///< as in StepEvent
};

/// Brings the training steps of a session to its device, each with its batches, and their results back. At most
/// Executor::most_steps_queued are queued: lay_out() and queue() add one, wait_for_oldest() and remove_oldest() take
/// one away.
class StepDriver {
 public:
  /// Both must outlive it; the data is read in the order of `sampler`.
  StepDriver(Session& session, const Sampler& sampler);
  ~StepDriver();
  StepDriver(const StepDriver&) = delete;
  StepDriver& operator=(const StepDriver&) = delete;

  /// Reads data from there on, if this rank takes any; before the first step is queued.
  void start_reading(BatchPosition start);
  /// Nothing is copied from the reader's memory when this returns, and no step may be queued until reading starts
  /// again.
  void stop_reading();

  /// Lays out a step, in place of the layout before. Throws ProgramOutOfMemory.
  void lay_out(std::int64_t number, const RunSchedule::Step& step);

  struct QueueOptions {
    bool may_wait = false;      ///< to be started together with later ones: Note [Steps at once] in executor.h
    bool batch_follows = true;  ///< a step comes next, without an evaluation between, so that its batch may be staged
  };
  /// Queues the step that was laid out. Throws DataError, DeviceError.
  void queue(const StepScalars& first_scalars, QueueOptions options);
  /// Whether queue() was left by an exception, so that a part of a step may have run.
  bool is_within_step() const { return is_within_step_; }

  /// Oldest first.
  const std::vector<QueuedStep>& queued() const { return queued_; }
  /// Starts the oldest step if it waits, and waits until it is over.
  StepResult wait_for_oldest();
  void remove_oldest() { queued_.erase(queued_.begin()); }
  /// Takes back what was not started, waits for the rest, and forgets all of them.
  void drop_all();

  /// The next batch that a step would take, until another one is asked for; instead of queueing that step.
  const HostBatch& take_batch();
  /// Of waiting for batches and copying them ahead, since the reading started.
  double seconds_of_data() const { return seconds_of_data_; }

 private:
  static constexpr std::size_t num_result_slots = Executor::most_steps_queued;

  /// Routines of a step from one on, up to the next, that are queued together.
  struct QueuedRoutines {
    std::size_t first = 0;
    std::int64_t pass = 0;     ///< of the step, whose scalars they run under
    bool takes_batch = false;  ///< that of the pass
  };

  /// Queues a laid-out step of one pass as one that is fed; its number, or -1 where it is to be queued
  /// otherwise.
  std::int64_t feed();
  void queue_passes(bool batch_follows);
  const HostBatch& staged_or_next(const QueuedRoutines& group);
  void stage_next(std::size_t group, bool batch_follows);
  /// That of a pass of the step; batches before it that nothing takes have no samples.
  const HostBatch& batch_of(std::int64_t pass);
  void read_rest_of_step();
  const HostBatch& next_batch();
  std::int64_t size_of_pass(std::int64_t pass) const;
  void mark_started();
  /// Where a step puts its result that is not fed.
  std::byte* result_slot(std::int64_t number) {
    return results_memory_->data() + static_cast<std::size_t>(number) % num_result_slots * sizeof(StepResult);
  }

  Session& session_;
  const Sampler& sampler_;
  const Program& program_;
  Executor& executor_;
  std::unique_ptr<BatchReader> reader_;
  std::unique_ptr<HostMemory> results_memory_;  ///< num_result_slots of StepResult

  std::vector<QueuedStep> queued_;
  QueuedStep laid_out_;                      ///< by lay_out(), until it is queued
  std::vector<const Routine*> routines_;     ///< of that
  std::vector<QueuedRoutines> groups_;       ///< of them
  std::int64_t num_read_ = 0;                ///< batches of the step's passes, taken or staged
  const HostBatch* staged_batch_ = nullptr;  ///< fetched and on its way to the device
  bool is_within_step_ = false;
  double seconds_of_data_ = 0;
  double seconds_of_waiting_ = 0;  ///< for the reader, of no queued step yet
};

}  // namespace trainer
