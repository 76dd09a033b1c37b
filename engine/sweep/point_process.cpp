#include "engine/sweep/point_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace trainer {
namespace {

constexpr int pause_milliseconds = 100;
constexpr std::size_t most_kept_of_stderr = 8192;

[[noreturn]] void throw_system_error(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Both ends of a pipe, closed with it.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw_system_error("cannot make a pipe");
    // Where a standard stream is closed an end got its number, and dup2 onto itself would leave it to close at exec.
    for (int& end : ends_) {
      if (end > STDERR_FILENO) continue;
      const int moved = fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      if (moved < 0) throw_system_error("cannot make a pipe");
      close(end);
      end = moved;
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_write_end() { close_end(1); }

 private:
  void close_end(std::size_t index) {
    if (ends_[index] >= 0) close(ends_[index]);
    ends_[index] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

/// In the child, between fork and exec, where only calls that are safe in a signal handler are.
[[noreturn]] void become(char* const* words, const Pipe& out, const Pipe& err, pid_t parent) {
  // posix_spawn cannot ask for this. A parent that ended before it was asked for is no parent any more.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out.write_end(), STDOUT_FILENO);
  dup2(err.write_end(), STDERR_FILENO);
  execv("/proc/self/exe", words);
  _exit(127);
}

/// A child that is killed and waited for where nobody has waited for it.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ < 0) return;
    kill(id_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void stop() const { kill(id_, SIGKILL); }
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
    return status;
  }

 private:
  pid_t id_;
};

/// Whole lines out of pieces.
class LineCutter {
 public:
  void add(std::string_view piece, const std::function<void(std::string_view)>& on_line) {
    unfinished_ += piece;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = unfinished_.find('\n', begin)) != std::string::npos; begin = end + 1)
      on_line(std::string_view(unfinished_).substr(begin, end - begin));
    unfinished_.erase(0, begin);
  }

 private:
  std::string unfinished_;
};

}  // namespace

ProcessEnd run_point_process(const std::vector<std::string>& arguments, const std::atomic<int>& stop_requests,
                             const std::function<void(std::string_view)>& on_line,
                             const std::function<void()>& on_pause) {
  std::vector<std::string> texts = {"trainer"};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  words.reserve(texts.size() + 1);
  for (std::string& text : texts) words.push_back(text.data());
  words.push_back(nullptr);

  Pipe out, err;
  const pid_t parent = getpid();
  const pid_t id = fork();
  if (id < 0) throw_system_error("cannot start a process");
  if (id == 0) become(words.data(), out, err, parent);
  Child child(id);
  out.close_write_end();
  err.close_write_end();

  ProcessEnd end;
  LineCutter lines;
  std::array<pollfd, 2> watched = {{{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
  std::array<char, 65536> buffer{};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    if (stop_requests > 0 && !end.stopped) {
      end.stopped = true;
      child.stop();
    }
    const int num_ready = poll(watched.data(), watched.size(), pause_milliseconds);
    if (num_ready < 0 && errno != EINTR) throw_system_error("cannot wait for a process");
    if (num_ready <= 0) {
      on_pause();
      continue;
    }
    for (pollfd& stream : watched) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      const ssize_t count = read(stream.fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        stream.fd = -1;  // poll passes over it
        continue;
      }
      const std::string_view piece(buffer.data(), static_cast<std::size_t>(count));
      if (&stream == watched.data())
        lines.add(piece, on_line);
      else
        end.said += piece.substr(0, most_kept_of_stderr - std::min(most_kept_of_stderr, end.said.size()));
    }
  }
  const int status = child.wait();
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

}  // namespace trainer
