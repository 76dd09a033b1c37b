#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/described_events/described_events.h"
#include "tests/temporary_folder.h"

namespace trainer {

/// What runs have told in it is held against the schema: Note [Described events] in
/// tests/described_events/described_events.h.
class ScratchFolder : public TemporaryFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder() { check_events(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

 private:
  void check_events() const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".jsonl") || !entry.is_regular_file(ignored)) continue;
      std::ostringstream all;
      all << std::ifstream(entry.path()).rdbuf();
      const std::string problem = undescribed_lines(all.str());
      CAPTURE(entry.path().string(), problem);
      CHECK(problem.empty());
    }
  }
};

struct ProcessResult {
  int exit_code = -1;  ///< -signal where a signal ended it
  std::string out, err;
  std::int64_t peak_resident = 0;  ///< ru_maxrss; of a process that replaced itself, also of what it was before
};

struct ProcessOptions {
  std::string folder = TRAINER_SOURCE_DIR;                         ///< to run in
  std::vector<std::pair<std::string, std::string>> environment{};  ///< added
  std::vector<std::string> without{};                              ///< variables that are not inherited
  std::int64_t address_space = 0;                                  ///< RLIMIT_AS; 0: as here
  int terminal_columns = 0;                                        ///< > 0: stdout and stderr are a terminal (in `out`)
  std::function<void(pid_t, const std::string& out)> on_output{};  ///< after each piece of stdout
  std::function<void()> before_start{};                            ///< in the process, before it becomes trainer
};

/// Runs the trainer that was built with these tests. A minute is the most it may take.
inline ProcessResult run_trainer(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
  std::array<int, 2> out{-1, -1}, err{-1, -1};
  pid_t child = -1;
  if (options.terminal_columns > 0) {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(options.terminal_columns);
    size.ws_row = 40;
    child = forkpty(&out[0], nullptr, nullptr, &size);
  } else {
    REQUIRE(pipe2(out.data(), O_CLOEXEC) == 0);
    REQUIRE(pipe2(err.data(), O_CLOEXEC) == 0);
    child = fork();
  }
  REQUIRE(child >= 0);
  if (child == 0) {
    if (options.terminal_columns == 0) {
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
    }
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    setenv("OMP_NUM_THREADS", "2", 1);
    for (const std::string& name : options.without) unsetenv(name.c_str());
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    if (options.address_space > 0) {
      const auto limit = static_cast<rlim_t>(options.address_space);
      const rlimit both{limit, limit};
      setrlimit(RLIMIT_AS, &both);
    }
    if (chdir(options.folder.c_str()) != 0) _exit(126);
    if (options.before_start) options.before_start();
    std::vector<char*> words = {const_cast<char*>("trainer")};  // as called where the PATH has it
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(TRAINER_BINARY, words.data());
    _exit(127);
  }
  if (out[1] >= 0) close(out[1]);
  if (err[1] >= 0) close(err[1]);

  ProcessResult result;
  const auto begin = std::chrono::steady_clock::now();
  std::array<pollfd, 2> watched = {{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60)) kill(child, SIGKILL);
    if (poll(watched.data(), watched.size(), 1000) <= 0) continue;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      std::array<char, 65536> piece{};
      const ssize_t count = read(watched[i].fd, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {  // a terminal ends with EIO
        close(watched[i].fd);
        watched[i].fd = -1;
        continue;
      }
      (i == 0 ? result.out : result.err).append(piece.data(), static_cast<std::size_t>(count));
      if (i == 0 && options.on_output) options.on_output(child, result.out);
    }
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  result.peak_resident = std::int64_t{usage.ru_maxrss} * 1024;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  const std::string problem = undescribed_lines(result.out);
  CAPTURE(problem);
  CHECK(problem.empty());
  return result;
}

/// Every line of stdout as JSON; fails the test where one is not.
inline std::vector<nlohmann::json> events_of(const std::string& text) {
  std::vector<nlohmann::json> events;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    INFO(line);
    REQUIRE(end != std::string::npos);
    nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    REQUIRE(event.is_object());
    events.push_back(std::move(event));
    begin = end + 1;
  }
  return events;
}

/// The same of a file.
inline std::vector<nlohmann::json> events_in_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  return events_of(all.str());
}

inline std::vector<nlohmann::json> events_named(const std::vector<nlohmann::json>& events, const std::string& name) {
  std::vector<nlohmann::json> named;
  for (const nlohmann::json& event : events)
    if (event.at("event") == name) named.push_back(event);
  return named;
}

}  // namespace trainer
