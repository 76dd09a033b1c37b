#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/device/device.h"
#include "engine/train/events.h"
#include "engine/train/executor.h"
#include "engine/train/files/replaced_run.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/run_progress.h"
#include "engine/train/running_stage.h"
#include "engine/train/training_run.h"

namespace trainer {

/// What a run's end event says, gathered while it goes on, and the warnings of it.
class RunTotals {
 public:
  /// All must outlive it.
  RunTotals(const RunDirectory& directory, const ReplacedRun& replaced, Device& device, RunProgress& progress,
            EventSink& events);

  /// Behind the start event.
  void begin() { end_.outside_allocator = device_.outside_allocator(); }

  void warn(const std::string& message);
  /// The device's notes that were not told yet.
  void tell_notes();
  /// In a run that fails for another reason, which must not be hidden.
  void try_to_tell_notes();
  /// At the end of the stage's session: what no reading of the data has given, and images that were not kept.
  void tell_of_data(const RunningStage& stage);

  void begin_stage(const RunningStage& stage);
  /// Of the stage that was begun.
  void end_stage();

  void add(const EndEvent::Adaptation& adaptation) { end_.adaptations.push_back(adaptation); }
  /// Numbers of a session that is over, which still holds what its last step left.
  void add(const Executor& executor);
  /// What is told beside the status.
  void note_error(std::string error) { end_.error = std::move(error); }

  /// Emits the end event. `stage`: that was in hand last.
  void tell_end(RunStatus status, const RunningStage& stage);
  /// The same of a run that `error` ends.
  void tell_end(const std::exception& error, const RunningStage& stage);

 private:
  using Clock = std::chrono::steady_clock;

  void finish(std::string status, const RunningStage& stage);

  const RunDirectory& directory_;
  const ReplacedRun& replaced_;
  Device& device_;
  RunProgress& progress_;
  EventSink& events_;
  EndEvent end_;
  EndEvent::Stage stage_;  ///< what it has done so far
  std::int64_t stage_first_step_ = 0;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point stage_begin_ = begin_;
};

}  // namespace trainer
