#include "cli/rank_launcher.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/ranks/socket.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// What others may take to end once a rank has failed; one that is stopped does not end by itself.
constexpr auto grace = std::chrono::seconds(10);
constexpr int most_launched = 4096;
std::array<std::atomic<pid_t>, most_launched> launched_ranks{};

void pass_on(int signal) {
  for (const std::atomic<pid_t>& rank : launched_ranks)
    if (const pid_t process = rank.load(); process > 0) ::kill(process, signal);
}

std::atomic<int> num_asked_here{0};  // SIGINT and SIGTERM

/// A terminal's own signals reach all of its processes; what a process has sent may have reached this one alone. So
/// ranks are told how often this one was asked, and do not count what they were sent themselves again.
extern "C" void pass_on_if_sent(int signal, siginfo_t* info, void*) {
  if (info->si_code > 0) return;
  sigval count{};
  count.sival_int = signal == SIGHUP ? 0 : num_asked_here.fetch_add(1) + 1;
  for (const std::atomic<pid_t>& rank : launched_ranks)
    if (const pid_t process = rank.load(); process > 0) ::sigqueue(process, signal, count);
}

void handle_with(void (*handler)(int, siginfo_t*, void*), int signal) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(signal, &action, nullptr);
}

/// The words that this process was started with.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < all.size();) {
    words.emplace_back(all.c_str() + at);
    at += words.back().size() + 1;
  }
  return words;
}

/// In the child: nothing here may allocate once others hold locks, so all is ready before.
[[noreturn]] void become_rank(char* const* words, char* const* variables, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  ::execve("/proc/self/exe", words, variables);
  ::_exit(static_cast<int>(ExitCode::device));
}

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// This process's variables, and those that tell a rank of itself.
std::vector<std::string> variables_of(int rank, int num_ranks, int port) {
  std::vector<std::string> variables = {fmt::format("RANK={}", rank),
                                        fmt::format("WORLD_SIZE={}", num_ranks),
                                        fmt::format("LOCAL_RANK={}", rank),
                                        fmt::format("LOCAL_WORLD_SIZE={}", num_ranks),
                                        "MASTER_ADDR=127.0.0.1",
                                        fmt::format("MASTER_PORT={}", port)};
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

}  // namespace

ExitCode launch_ranks(int num_ranks) {
  if (num_ranks > most_launched)
    throw ConfigError(fmt::format("one machine runs at most {} ranks: mpirun, srun or torchrun start them on several",
                                  most_launched));
  const int port = free_local_port();
  std::vector<std::string> words = own_words();
  const std::vector<char*> word_pointers = pointers_of(words);
  const pid_t own = ::getpid();
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<std::string> variables = variables_of(rank, num_ranks, port);
    const std::vector<char*> variable_pointers = pointers_of(variables);
    const pid_t process = ::fork();
    if (process == 0) become_rank(word_pointers.data(), variable_pointers.data(), own);
    if (process < 0) {
      const int reason = errno;
      pass_on(SIGKILL);
      throw DeviceError(fmt::format("cannot start rank {}: {}", rank, std::strerror(reason)));
    }
    launched_ranks[static_cast<std::size_t>(rank)] = process;
  }
  for (const int signal : {SIGINT, SIGHUP, SIGTERM}) handle_with(pass_on_if_sent, signal);

  int of_first = 0, of_others = 0;
  bool first_was_killed = false, has_failed = false;
  Clock::time_point first_failure;
  for (int left = num_ranks; left > 0;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, has_failed ? WNOHANG : 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    if (ended == 0) {
      if (Clock::now() - first_failure > grace) pass_on(SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    --left;
    if (status != 0 && !std::exchange(has_failed, true)) first_failure = Clock::now();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended == launched_ranks[0]) {
      of_first = code;
      first_was_killed = !WIFEXITED(status);
    } else if (of_others == 0 || (of_others > 128 && code != 0 && code < 128)) {
      of_others = code;
    }
    for (std::atomic<pid_t>& rank : launched_ranks)
      if (rank == ended) rank = 0;
  }
  const bool others_tell = (of_first == 0 || first_was_killed) && of_others != 0;
  return static_cast<ExitCode>(others_tell ? of_others : of_first);
}

}  // namespace trainer
