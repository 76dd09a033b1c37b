#pragma once

#include "engine/train/training_run.h"

namespace trainer {

/// While it lives, the first SIGINT or SIGTERM asks the run to finish its step, and a second one ends the process at
/// once with 128 + the signal's number, as the shell reports a process killed by it. One at a time.
class InterruptSignals {
 public:
  explicit InterruptSignals(Interruption& interruption);
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;
};

}  // namespace trainer
