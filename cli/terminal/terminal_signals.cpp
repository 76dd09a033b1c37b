#include "cli/terminal/terminal_signals.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace trainer {
namespace {

// A signal handler takes no arguments.
volatile std::sig_atomic_t pending_end = 0, pending_stop = 0, pending_continuation = 0, pending_resize = 0;

extern "C" void note_signal(int signal) {
  if (signal == SIGTSTP)
    pending_stop = 1;
  else if (signal == SIGCONT)
    pending_continuation = 1;
  else if (signal == SIGWINCH)
    pending_resize = 1;
  else
    pending_end = signal;
}

int take(volatile std::sig_atomic_t& pending) {
  const int value = pending;
  pending = 0;
  return value;
}

}  // namespace

TerminalSignals::TerminalSignals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int signal : handled) sigaddset(&all, signal);
  sigprocmask(SIG_BLOCK, &all, &mask_before_);
  for (volatile std::sig_atomic_t* const pending :
       {&pending_end, &pending_stop, &pending_continuation, &pending_resize})
    *pending = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_mask = all;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(handled[i], &action, nullptr);
  }
}

TerminalSignals::~TerminalSignals() {
  for (std::size_t i = 0; i < handled.size(); ++i) sigaction(handled[i], &before_[i], nullptr);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

ScreenHappenings TerminalSignals::wait(std::chrono::milliseconds longest) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const timespec time{.tv_sec = static_cast<time_t>(longest.count() / 1000),
                      .tv_nsec = static_cast<long>(longest.count() % 1000) * 1000000};
  // What is asked for meanwhile is told whatever the wait came to.
  const int count = ppoll(&input, 1, &time, &mask_before_);
  ScreenHappenings happened;
  if (count > 0) {
    happened.has_input = (input.revents & POLLIN) != 0;
    happened.is_hung_up = (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
  happened.to_end = take(pending_end);
  happened.is_to_stop = take(pending_stop) != 0;
  happened.was_continued = take(pending_continuation) != 0;
  happened.was_resized = take(pending_resize) != 0;
  return happened;
}

void TerminalSignals::stop_here() {
  struct sigaction ours {
  }, usual{};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &usual, &ours);
  std::raise(SIGTSTP);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops, and here it goes on
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  sigaction(SIGTSTP, &ours, nullptr);
}

}  // namespace trainer
