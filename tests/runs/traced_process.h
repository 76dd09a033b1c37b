#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace trainer {

/// How a process went whose main thread was watched.
struct TracedResult {
  int exit_code = -1;                  ///< -signal where a signal ended it
  std::int64_t num_calls = 0;          ///< calls that change files, made by its main thread
  std::vector<std::string> flushed{};  ///< paths that it had flushed to the disk, in order
};

inline bool changes_files(std::uint64_t call, const std::uint64_t* arguments) {
  static constexpr std::array<long, 18> changing = {
      SYS_write,     SYS_pwrite64,  SYS_writev,  SYS_fsync,     SYS_fdatasync, SYS_rename,
      SYS_renameat,  SYS_renameat2, SYS_unlink,  SYS_unlinkat,  SYS_rmdir,     SYS_symlink,
      SYS_symlinkat, SYS_mkdir,     SYS_mkdirat, SYS_ftruncate, SYS_truncate,  SYS_creat};
  if (call == SYS_openat) return (arguments[2] & (O_CREAT | O_TRUNC)) != 0;
  return std::find(changing.begin(), changing.end(), static_cast<long>(call)) != changing.end();
}

/// Runs the trainer that was built with these tests, and kills it where its main thread is about to make call number
/// `kill_at` (from 0) of those that change files: so a test can stand at every moment that differs on the disk. What it
/// prints goes nowhere. Where the system lets no process be traced, exit_code is 126.
inline TracedResult run_traced(const std::vector<std::string>& arguments,
                               std::int64_t kill_at = std::numeric_limits<std::int64_t>::max()) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
    setenv("OMP_NUM_THREADS", "1", 1);
    if (chdir(TRAINER_SOURCE_DIR) != 0 || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(126);
    std::vector<char*> words = {const_cast<char*>(TRAINER_BINARY)};
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(TRAINER_BINARY, words.data());
    _exit(127);
  }
  TracedResult result;
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSTOPPED(status)) ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  while (WIFSTOPPED(status)) {
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
      static_assert(sizeof(info.entry.args[0]) == sizeof(std::uint64_t));
      std::array<std::uint64_t, 6> call_arguments{};
      std::copy(std::begin(info.entry.args), std::end(info.entry.args), call_arguments.begin());
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_files(info.entry.nr, call_arguments.data())) {
        if (result.num_calls == kill_at) kill(child, SIGKILL);
        if (info.entry.nr == SYS_fsync) {
          std::error_code none;
          const auto file = fmt::format("/proc/{}/fd/{}", child, call_arguments[0]);
          result.flushed.push_back(std::filesystem::read_symlink(file, none).string());
        }
        ++result.num_calls;
      }
    }
    const bool is_of_tracing = signal == (SIGTRAP | 0x80) || signal == SIGTRAP || signal == SIGSTOP;
    ptrace(PTRACE_SYSCALL, child, nullptr, is_of_tracing ? 0 : signal);
    REQUIRE(waitpid(child, &status, 0) == child);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

}  // namespace trainer
