#include "engine/cpu/processor.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "engine/memory/control_groups.h"

namespace trainer {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

int affinity_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

double ratio(double quota, double period) { return quota > 0 && period > 0 ? quota / period : unlimited; }

/// CPUs that one group may use on average; infinity where it has no limit.
double group_quota(const std::filesystem::path& folder) {
  double quota = 0;
  double period = 0;
  // Version 2: "max 100000" or "150000 100000".
  if (std::ifstream file(folder / "cpu.max"); file >> quota >> period) return ratio(quota, period);
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period) return ratio(quota, period);
  return unlimited;
}

/// The tightest quota on the way from the process's groups up to the root.
double control_group_quota() {
  double lowest = unlimited;
  for (const ControlGroupFolder& folder : control_group_folders("cpu"))
    lowest = std::min(lowest, group_quota(folder.path));
  return lowest;
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
  }
  return "unknown CPU";
}

int usable_threads() {
  const int threads = affinity_threads();
  const double quota = control_group_quota();
  return quota < threads ? std::max(1, static_cast<int>(std::ceil(quota))) : threads;
}

}  // namespace trainer
