#pragma once

#include <array>
#include <csignal>

#include "engine/train/training_run.h"

namespace trainer {

/// While it lives, the first SIGINT, SIGTERM, SIGHUP (the terminal went) or SIGXCPU (the processor's time is nearly
/// over) asks the run to finish its step, and a second SIGINT or SIGTERM ends the process at once with 128 + the
/// signal's number, as the shell reports a process killed by it; the other two come again by themselves. A signal that
/// was ignored stays so (nohup, a shell's background). One at a time. `note` is written to stderr at the first of each
/// kind; it must outlive it.
class InterruptSignals {
 public:
  static constexpr const char* note_of_run =
      "\nFinishing this step and saving a checkpoint; once more to stop at once.\n";

  explicit InterruptSignals(Interruption& interruption, const char* note = note_of_run);
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;

  /// The run has stopped as it was asked, and the process ends by itself: until then signals are counted as before.
  /// What starts ranks passes a signal on to all, which may be later than they have stopped for the one that each was
  /// sent.
  void stay_until_exit();

 private:
  static constexpr std::array handled = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
  std::array<struct sigaction, handled.size()> before_{};
  bool stays_ = false;
};

}  // namespace trainer
