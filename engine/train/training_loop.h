#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/events.h"
#include "engine/train/leak_watch.h"
#include "engine/train/run_progress.h"
#include "engine/train/session.h"
#include "engine/train/step_driver.h"
#include "engine/train/training_run.h"

namespace trainer {

/// The steps of a run, or of a stage of one, from where its progress is to the end of the schedule, with evaluations,
/// early stopping and checkpoints. The session's executor holds the parameters and the optimizer's state that belong to
/// `progress.state`.
///
/// Note [Running ahead]
/// On a device that computes beside the host, a step is queued before the loss of the step before it has been read, so
/// that the device never waits for the host: steps are queued (queue_step) and later finished (finish_step), at most
/// one ahead, or, where short steps are started several at once (Note [Steps at once] in executor.h), as many as those
/// that run and those that come next. None is queued beyond a step behind which the state is looked at (an evaluation,
/// a checkpoint, histograms, the end), nor after an interruption, which then waits for what is queued. The state moves
/// only when a step is finished. A loss that is not finite keeps its update and all later ones from changing anything
/// (start_loss_statistics in loss_statistics.h), so that divergence may be noticed as many steps late as are queued; so
/// does a weight that an update made not finite, with the updates of later steps (Note [Lost weights] there).
/// Under a loss scale an overflow is a skipped update instead, and divergence is an overflow that no scale helps
/// against: one that takes the scale below 1 where the loss is not finite, or below 2^-16 where only gradients are not.
class TrainingLoop {
 public:
  /// All must outlive it. Without a `saver` nothing is saved.
  TrainingLoop(Session& session, const TrainingOptions& options, const Interruption& interruption, EventSink& events,
               RunProgress& progress, ProgressSaver* saver);
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// Goes on to the end, an interruption or divergence; emits all events but start and end. Throws ProgramOutOfMemory,
  /// DataError, DeviceError; the progress is then that of the last step that was finished, and another loop can go on
  /// from it.
  RunStatus run();

  /// After ProgramOutOfMemory: saves what was trained since the last checkpoint, on rank 0, where it holds all of it.
  void save_after_failure();

  // After the host ran out of memory.
  /// Whether that was while a step was being queued, which then may have changed some of the parameters.
  bool is_within_step() const { return driver_.is_within_step(); }
  /// Those that were queued before count, as far as they do not diverge.
  void finish_queued_steps();

 private:
  /// Step `number` of the run, which counts on from stage to stage, as its epochs do.
  RunSchedule::Step step_of(std::int64_t number) const;
  /// As events name it.
  std::string_view stage_name() const {
    return state_.stage.name.empty() ? std::string_view("train") : std::string_view(state_.stage.name);
  }
  /// The last one of the stage.
  std::int64_t last_step() const { return state_.stage.step + schedule_.total_steps(); }
  /// All that the steps and evaluations of the rest of the stage call.
  void prepare_kernels();
  RunStatus run_steps();
  /// What is due behind a step: evaluation and checkpoint; false where the run diverged.
  bool settle_step();
  bool train_next_step();
  void queue_step(std::int64_t number);
  /// Waits for the oldest queued step and tells of it; false where it diverged.
  bool finish_step();
  bool may_queue_behind(const QueuedStep& queued) const;
  /// Whether the state is looked at behind a step.
  bool must_be_finished(std::int64_t number, const RunSchedule::Step& step) const;
  /// How many steps may be queued and not finished.
  std::size_t most_queued() const;
  bool are_steps_short() const;
  StepScalars scalars_of(std::int64_t number, const RunSchedule::Step& step);
  /// After routines of `step` were laid out, which leave nothing behind.
  void look_for_leaks(std::int64_t step);
  /// Once in a run.
  void warn_of_weightless(std::int64_t step);
  bool evaluate();
  bool save();
  bool is_due(std::int64_t number, std::int64_t every, bool in_epochs) const;
  bool checkpoint_is_due(std::int64_t number) const;
  bool histograms_are_due(std::int64_t number) const;
  /// Where histograms of them are due.
  void show_due_weights();
  bool stops_early() const;
  /// Whether the run is asked to end, as all ranks have agreed.
  bool is_interrupted() const {
    return options_.ranks == nullptr ? interruption_.requests.load() > 0 : was_interrupted_;
  }
  /// Agrees on that.
  void look_for_interruption();
  void share_statistics();
  bool note_evaluation(const LossSummary& summary);

  /// What the mean of a term of the loss divides by in the whole step, known before its first micro-batch.
  double loss_weight_of_step(const RunSchedule::Step& step, const LossPart& part);
  LossStatistics read_statistics();
  /// What evaluations counted beside the loss.
  CountedMetrics read_counts();
  /// Takes note of the loss scale behind a step; whether the step's update was skipped.
  bool note_loss_scale(const StepResult& result, StepEvent& event);
  LossSummary summarize(const LossStatistics& statistics) const;
  /// With what the device has in use now.
  DeviceMemory describe(const StepMemory& memory, std::int64_t num_alloc_retries);
  DeviceMemory measure();
  std::int64_t measure_used();

  DivergedEvent locate_in_step(const RunSchedule::Step& step, const StepScalars& scalars, double loss);
  DivergedEvent locate_in_evaluation(double loss);
  void locate_in_pipeline(const RunSchedule::Step& step, BatchReader& reader, StepScalars scalars,
                          DivergedEvent& event);
  /// Of several ranks that found something the first is believed: stages stand in the order of the model.
  void agree_on_origin(DivergedEvent& event);

  Session& session_;
  const Experiment& experiment_;
  const LoadedData& data_;
  const RunSchedule& schedule_;
  Executor& executor_;
  const Program& program_;
  const TrainingOptions& options_;
  const Interruption& interruption_;
  EventSink& events_;

  Sampler sampler_;
  std::vector<std::int32_t> classes_;            ///< of one sample
  std::unique_ptr<SampleReader> target_reader_;  ///< of training targets, once a loss asks for them
  bool warned_of_weightless_ = false;
  bool was_interrupted_ = false;  ///< as ranks agreed
  /// Class weights and ignored targets need the targets of a whole step before its first micro-batch: the order of
  /// `order_epoch_`.
  std::vector<std::uint32_t> order_;
  std::int64_t order_epoch_ = -1;

  std::optional<LeakWatch> leak_watch_;  ///< from the start of run()
  RunProgress& progress_;
  TrainingState& state_;  ///< of the progress
  ProgressSaver* const saver_;

  StepDriver driver_;
  std::chrono::steady_clock::time_point last_finish_;
  double seconds_of_steps_ = 1;  ///< of the newest ones, each, about

  const std::int64_t device_total_;  ///< asked once: it may mean reading files
  double skipped_before_ = 0;        ///< updates skipped until the newest finished step
};

}  // namespace trainer
