#include "engine/report/live/process_usage.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

namespace trainer {

std::optional<ProcessUsage> process_usage(std::int64_t pid, const std::string& root) {
  std::ifstream file(root + "proc/" + std::to_string(pid) + "/stat");
  std::string line;
  double now = 0;
  if (!std::getline(file, line) || !(std::ifstream(root + "proc/uptime") >> now)) return std::nullopt;
  // "PID (name) state …": the name may hold anything, also ')'. Fields as in proc(5), from the third on.
  const std::size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  std::istringstream words(line.substr(close + 1));
  std::string state;
  std::array<std::int64_t, 21> fields{};  // from the fourth on
  words >> state;
  for (std::int64_t& field : fields) words >> field;
  if (!words) return std::nullopt;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  constexpr std::size_t user_time = 10, system_time = 11, threads = 16, start_time = 18, resident_pages = 20;
  return ProcessUsage{.pid = pid,
                      .name = line.substr(open + 1, close - open - 1),
                      .cpu_seconds = static_cast<double>(fields[user_time] + fields[system_time]) / ticks,
                      .begin_seconds = static_cast<double>(fields[start_time]) / ticks,
                      .now_seconds = now,
                      .resident_bytes = fields[resident_pages] * ::sysconf(_SC_PAGESIZE),
                      .num_threads = fields[threads]};
}

double busy_processors(const std::optional<ProcessUsage>& before, const ProcessUsage& now) {
  const bool is_same = before && before->pid == now.pid && before->begin_seconds == now.begin_seconds &&
                       now.now_seconds > before->now_seconds;
  const double seconds = now.now_seconds - (is_same ? before->now_seconds : now.begin_seconds);
  const double busy = now.cpu_seconds - (is_same ? before->cpu_seconds : 0);
  return seconds > 0 ? std::max(0.0, busy / seconds) : 0;
}

}  // namespace trainer
