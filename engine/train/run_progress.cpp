#include "engine/train/run_progress.h"

#include <chrono>

#include "engine/plan/process_memory.h"

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

ProgressSaver::ProgressSaver(const Program& program, const RunDirectory& directory, const std::string& trainer_version)
    : directory_(directory), trainer_version_(trainer_version), memory_(largest_saved_piece(program)) {}

std::int32_t ProgressSaver::save(RunProgress& progress, const Experiment& experiment, const SavedTensors& tensors,
                                 EventSink& events) {
  const auto begin = std::chrono::steady_clock::now();
  const TrainingState& state = progress.state;
  events.make_durable();  // a run that resumes from the checkpoint does not tell them again
  const SavedCheckpoint saved =
      save_checkpoint(directory_.checkpoints_path(), state, experiment, trainer_version_, tensors, memory_);
  if (saved.non_finite_parameter >= 0) return saved.non_finite_parameter;
  save_config(progress);
  directory_.settle(state.step, state.best_value ? state.best_step : -1, experiment.checkpoint.keep);
  progress.note_saved();
  progress.last_checkpoint = saved.path;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  events.take(CheckpointEvent{.step = state.step, .path = saved.path, .seconds = seconds.count()});
  return -1;
}

void ProgressSaver::save_config(RunProgress& progress) const {
  if (progress.wrote_config) return;
  directory_.write_config(progress.config_yaml);
  progress.wrote_config = true;
}

}  // namespace trainer
