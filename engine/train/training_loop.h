#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/batch_reader.h"
#include "datasets/dataset.h"
#include "datasets/sampler.h"
#include "engine/ops/loss_statistics.h"
#include "engine/program/run_schedule.h"
#include "engine/train/events.h"
#include "engine/train/executor.h"
#include "engine/train/run_directory.h"
#include "engine/train/training_run.h"

namespace trainer {

/// Means of an evaluation or a step, from the device's loss statistics.
struct LossSummary {
  double loss = 0;
  std::optional<double> accuracy, top5;
};

/// The steps of a run, from a state to the end of the schedule, with evaluations, early stopping and checkpoints.
/// `executor` holds the parameters and the optimizer's state that belong to `state`.
class TrainingLoop {
 public:
  TrainingLoop(const Experiment& experiment, const LoadedData& data, const RunSchedule& schedule, Executor& executor,
               const RunDirectory& directory, const TrainingOptions& options, const Interruption& interruption,
               EventSink& events);

  /// Goes on from `state` to the end, an interruption or divergence; emits all events but start and end. Throws
  /// ProgramOutOfMemory, DataError, DeviceError.
  RunStatus run(const TrainingState& state);

  /// After ProgramOutOfMemory: saves what was trained since the last checkpoint, unless an update was half done.
  void save_after_failure();

  /// Numbers for the end event.
  void fill(EndEvent& event) const;

 private:
  using Statistics = std::array<double, num_loss_statistics>;

  RunStatus run_steps();
  bool train_step();
  bool evaluate();
  /// Reads the validation data once.
  BatchReader read_validation() const;
  bool save();
  /// Returns the parameter that is not finite, or -1.
  std::int32_t write_checkpoint();
  bool checkpoint_is_due(const RunSchedule::Step& step) const;
  bool stops_early() const;
  bool note_evaluation(const LossSummary& summary);

  double loss_weight_of_step(const RunSchedule::Step& step);
  const Program::MicroBatch& micro_batch_of(std::int64_t batch_size) const;
  const Routine& evaluation_of(std::int64_t batch_size) const;
  std::int64_t size_of_micro_batch(const RunSchedule::Step& step, std::int64_t index) const;
  Statistics read_statistics();
  LossSummary summarize(const Statistics& statistics) const;
  DeviceMemory measure();
  void keep_running_statistics();

  DivergedEvent locate_in_step(const RunSchedule::Step& step, const StepScalars& scalars, double loss);
  DivergedEvent locate_in_evaluation(double loss);

  const Experiment& experiment_;
  const LoadedData& data_;
  const RunSchedule& schedule_;
  Executor& executor_;
  const Program& program_;
  const RunDirectory& directory_;
  const TrainingOptions& options_;
  const Interruption& interruption_;
  EventSink& events_;

  Sampler sampler_;
  std::unique_ptr<BatchReader> reader_;
  /// Class weights need the targets of a whole step before its first micro-batch: the order of `order_epoch_`.
  std::vector<float> class_weights_;
  std::vector<std::uint32_t> order_;
  std::int64_t order_epoch_ = -1;

  TrainingState state_;
  std::int64_t saved_step_ = -1;  ///< of the newest checkpoint written or resumed from
  bool saved_evaluated_ = true;   ///< its state's `evaluated`
  std::string last_checkpoint_;
  bool wrote_config_ = false;
  bool stopped_early_ = false;
  /// A failed step has moved running statistics; these are the ones it started with, parameter by parameter.
  std::vector<std::byte> running_statistics_;
  bool statistics_are_kept_ = false;
  bool is_updating_ = false;

  std::int64_t trained_samples_ = 0;
  double training_seconds_ = 0;
  std::int64_t peak_used_ = 0;
  const std::int64_t device_total_;  ///< asked once: it may mean reading files
  std::optional<LossSummary> last_evaluation_;
  double last_loss_ = 0;
};

}  // namespace trainer
