#include "engine/train/run_progress.h"

namespace trainer {

void RunProgress::resume(const TrainingState& loaded) {
  state = loaded;
  if (loaded.step == 0) return;
  saved_step = loaded.step;
  saved_evaluated = loaded.evaluated;
}

void RunProgress::fill(EndEvent& event) const {
  event.steps = state.step;
  event.training_seconds = training_seconds;
  event.samples = trained_samples;
  if (last_evaluation) {
    event.loss = last_evaluation->loss;
    event.accuracy = last_evaluation->accuracy;
    event.top5 = last_evaluation->top5;
  }
  event.best_value = state.best_value;
  event.best_step = state.best_step;
  event.stopped_early = stopped_early;
  event.skipped_updates = num_skipped;
  event.peak_used = peak_used;
  event.last_checkpoint = last_checkpoint;
  event.num_warnings = num_warnings;
}

}  // namespace trainer
