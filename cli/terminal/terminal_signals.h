#pragma once

#include <array>
#include <chrono>
#include <csignal>

namespace trainer {

/// What happened to a screen of its own while it waited.
struct ScreenHappenings {
  bool has_input = false;   ///< keys, or their end
  bool is_hung_up = false;  ///< nobody types any more
  bool was_resized = false;
  bool was_continued = false;  ///< after it had been stopped: what stands on the terminal is another's
  bool is_to_stop = false;     ///< Ctrl-Z
  int to_end = 0;              ///< the signal that asks for it; 0: none does
};

/// While it lives, signals reach this process only while it waits(), so that none of them comes in the middle of a
/// drawing: what becomes of the terminal is settled by who drew it. Those that were ignored stay so. One at a time, in
/// a process of one thread.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  /// Until something happens, or that long.
  ScreenHappenings wait(std::chrono::milliseconds longest);
  /// Stops this process as Ctrl-Z does, and returns when it goes on.
  void stop_here();

 private:
  static constexpr std::array handled = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
  std::array<struct sigaction, handled.size()> before_{};
  sigset_t mask_before_{};
};

}  // namespace trainer
