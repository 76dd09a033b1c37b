#include "cli/interrupt_signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace trainer {
namespace {

// A signal handler takes no arguments, so it reaches the run only through this.
std::atomic<Interruption*> interrupted_run{nullptr};
std::atomic<const char*> interruption_note{""};
static_assert(std::atomic<Interruption*>::is_always_lock_free, "a signal handler may not take a lock");

extern "C" void request_stop(int signal) {
  Interruption* run = interrupted_run.load();
  if (run == nullptr || run->requests.fetch_add(1) > 0) _exit(128 + signal);
  const char* note = interruption_note.load();
  // Nothing can be done where the note cannot be written.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, note, strlen(note));
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // Reads and writes of the run go on after the handler.
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptSignals::InterruptSignals(Interruption& interruption, const char* note) {
  interruption_note = note;
  interrupted_run = &interruption;
  handle(request_stop);
}

InterruptSignals::~InterruptSignals() {
  handle(SIG_DFL);
  interrupted_run = nullptr;
}

}  // namespace trainer
