#include "engine/train/run_progress.h"

#include <chrono>

#include "engine/plan/process_memory.h"
#include "engine/train/files/sharded_checkpoint.h"

namespace trainer {

std::optional<double> LossSummary::value_of(Metric metric) const {
  switch (metric) {
    case Metric::loss:
      return loss;
    case Metric::accuracy:
      return accuracy;
    case Metric::top5:
      return top5;
    case Metric::mean_iou:
      return counted.mean_iou;
    case Metric::dice:
      return counted.dice;
    case Metric::mae:
      return counted.mae;
    case Metric::r2:
      return counted.r2;
  }
  return std::nullopt;
}

std::optional<TokenCount> TokenRates::count(std::int64_t samples, std::int64_t seen, double seconds) const {
  if (tokens_per_sample == 0) return std::nullopt;
  TokenCount count{.trained = samples * tokens_per_sample, .seen = seen * tokens_per_sample};
  if (peak_flops_per_second && seconds > 0)
    count.mfu = flops_per_sample * static_cast<double>(samples) / (seconds * *peak_flops_per_second);
  return count;
}

void RunProgress::resume(const TrainingState& loaded) {
  state = loaded;
  saved_step = loaded.step;
  saved_evaluated = loaded.evaluated;
}

void RunProgress::fill(EndEvent& event) const {
  event.steps = state.step;
  event.training_seconds = training_seconds;
  event.data_seconds = data_seconds;
  event.samples = trained_samples;
  event.tokens = token_rates.count(trained_samples, state.samples, training_seconds);
  if (last_evaluation) {
    event.loss = last_evaluation->loss;
    event.accuracy = last_evaluation->accuracy;
    event.top5 = last_evaluation->top5;
    event.terms = last_evaluation->terms;
    event.counted = last_evaluation->counted;
    event.averaged = last_evaluation->averaged;
  }
  event.best_value = state.best_value;
  event.best_step = state.best_step;
  event.stopped_early = stopped_early;
  event.skipped_updates = num_skipped;
  event.peak_used = peak_used;
  event.last_checkpoint = last_checkpoint;
  event.num_warnings = num_warnings;
}

ProgressSaver::ProgressSaver(const Program& program, const RunDirectory& directory, const std::string& trainer_version,
                             Communicator* ranks, bool is_sharded)
    : directory_(directory),
      trainer_version_(trainer_version),
      ranks_(ranks),
      is_sharded_(is_sharded && ranks != nullptr && ranks->size() > 1),
      memory_(largest_saved_piece(program)) {
  if (is_sharded_ && has_parts(program)) given_.emplace(largest_saved_piece(program));
}

template <typename Save>
std::int32_t ProgressSaver::save_and_tell(RunProgress& progress, const Experiment& experiment, EventSink& events,
                                          const Save& save) {
  const auto begin = std::chrono::steady_clock::now();
  const TrainingState& state = progress.state;
  if (leads()) events.make_durable();  // a run that resumes from the checkpoint does not tell them again
  const SavedCheckpoint saved = save();
  if (saved.non_finite_parameter >= 0) return saved.non_finite_parameter;
  progress.note_saved();
  if (!leads()) return -1;
  save_config(progress);
  directory_.settle(state.step, state.best_value ? state.best_step : -1, experiment.checkpoint.keep);
  progress.last_checkpoint = saved.path;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  events.take(CheckpointEvent{.step = state.step, .path = saved.path, .seconds = seconds.count()});
  return -1;
}

std::int32_t ProgressSaver::save(RunProgress& progress, const Experiment& experiment, Executor& executor,
                                 EventSink& events) {
  if (is_sharded_) {
    const ShardMemory memory{memory_, given_ ? &*given_ : nullptr};
    return save_and_tell(progress, experiment, events, [&] {
      return save_sharded_checkpoint(directory_.checkpoints_path(), progress.state, experiment, trainer_version_,
                                     executor, *ranks_, memory);
    });
  }
  if (leads()) return save_alone(progress, experiment, saved_tensors_of(executor, ranks_), events);
  give_parts(executor, ranks_, memory_);
  progress.note_saved();
  return -1;
}

std::int32_t ProgressSaver::save_alone(RunProgress& progress, const Experiment& experiment, const SavedTensors& tensors,
                                       EventSink& events) {
  return save_and_tell(progress, experiment, events, [&] {
    return save_checkpoint(directory_.checkpoints_path(), progress.state, experiment, trainer_version_, tensors,
                           memory_);
  });
}

void ProgressSaver::save_config(RunProgress& progress) const {
  if (progress.wrote_config || !leads()) return;
  directory_.write_config(progress.config_yaml);
  progress.wrote_config = true;
}

}  // namespace trainer
