#include "engine/device/thread_limit.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

namespace trainer {

int num_running_threads() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return error ? 1 : std::max(1, static_cast<int>(std::distance(begin(threads), end(threads))));
}

DeviceError thread_limit_error(int num_started, int num_wanted) {
  const bool can_be_fewer = num_wanted > 1 + num_reader_threads;
  return DeviceError("the system lets this process start " + std::to_string(num_started) + " of " +
                     std::to_string(num_wanted) + " threads; raise its limit (ulimit -u, ulimit -v, the container's)" +
                     (can_be_fewer ? ", or give device.threads" : ""));
}

std::thread start_thread(std::function<void()> body) try {
  return std::thread(std::move(body));
} catch (const std::system_error&) {
  const int num_running = num_running_threads();
  throw thread_limit_error(num_running, num_running + 1);
}

}  // namespace trainer
