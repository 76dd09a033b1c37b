#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// How a process ended.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;        ///< that ended it; 0: it exited
  bool stopped = false;  ///< by us, because that was asked
  std::string said;      ///< on stderr: the first 8 KiB
};

/// Runs this executable with `arguments` and without input, and gives each line of its stdout to `on_line` as it comes.
/// It is killed when `stop_requests` is above 0, and by the system when this process ends, however that happens: a
/// point never outlives its sweep. `on_pause` is called some ten times a second. Throws std::system_error where no
/// process can be started.
ProcessEnd run_point_process(const std::vector<std::string>& arguments, const std::atomic<int>& stop_requests,
                             const std::function<void(std::string_view)>& on_line,
                             const std::function<void()>& on_pause);

}  // namespace trainer
