#pragma once

#include "engine/train/training_run.h"

namespace trainer {

/// While it lives, the first SIGINT or SIGTERM asks the run to finish its step, and a second one ends the process at
/// once with 128 + the signal's number, as the shell reports a process killed by it. One at a time.
/// `note` is written to stderr at the first; it must outlive it.
class InterruptSignals {
 public:
  static constexpr const char* note_of_run =
      "\nFinishing this step and saving a checkpoint; once more to stop at once.\n";

  explicit InterruptSignals(Interruption& interruption, const char* note = note_of_run);
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;
};

}  // namespace trainer
