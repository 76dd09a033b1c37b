#include "cli/interrupt_signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace trainer {
namespace {

// A signal handler takes no arguments, so it reaches the run only through this.
std::atomic<Interruption*> interrupted_run{nullptr};
std::atomic<const char*> interruption_note{""};
std::atomic<int> num_asked{0};  // SIGINT and SIGTERM
static_assert(std::atomic<Interruption*>::is_always_lock_free, "a signal handler may not take a lock");

extern "C" void request_stop(int signal, siginfo_t* info, void*) {
  Interruption* run = interrupted_run.load();
  const bool comes_again = signal == SIGHUP || signal == SIGXCPU;
  // What started this rank says how often it was asked (cli/rank_launcher.cpp): the rank may have been asked itself.
  const int told = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
  if (run != nullptr && !comes_again && told > 0 && told <= num_asked.load()) return;
  if (run == nullptr || (!comes_again && num_asked.fetch_add(1) > 0)) _exit(128 + signal);
  if (run->requests.fetch_add(1) > 0 && comes_again) return;
  const char* note = interruption_note.load();
  // Nothing can be done where the note cannot be written.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, note, strlen(note));
}

}  // namespace

InterruptSignals::InterruptSignals(Interruption& interruption, const char* note) {
  interruption_note = note;
  num_asked = 0;
  interrupted_run = &interruption;
  struct sigaction action {};
  action.sa_sigaction = request_stop;
  sigemptyset(&action.sa_mask);
  // Reads and writes of the run go on after the handler.
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(handled[i], &action, nullptr);
  }
}

void InterruptSignals::stay_until_exit() {
  static Interruption of_ended_run;
  interruption_note = "";
  interrupted_run = &of_ended_run;
  stays_ = true;
}

InterruptSignals::~InterruptSignals() {
  if (stays_) return;
  for (std::size_t i = 0; i < handled.size(); ++i) sigaction(handled[i], &before_[i], nullptr);
  interrupted_run = nullptr;
}

}  // namespace trainer
