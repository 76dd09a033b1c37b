#include "engine/device/processor.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "engine/memory/control_groups.h"

namespace trainer {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

int affinity_threads() {
  // The kernel refuses a set that is smaller than its own, of which nobody tells the size.
  for (std::size_t num_cpus = CPU_SETSIZE; num_cpus <= std::size_t{1} << 20; num_cpus *= 2) {
    std::vector<unsigned char> set(CPU_ALLOC_SIZE(num_cpus));
    auto* const cpus = reinterpret_cast<cpu_set_t*>(set.data());
    if (sched_getaffinity(0, set.size(), cpus) == 0) return std::max(1, CPU_COUNT_S(set.size(), cpus));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
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
double control_group_quota(const std::filesystem::path& root) {
  double lowest = unlimited;
  for (const ControlGroupFolder& folder : control_group_folders("cpu", root))
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

int usable_threads(const std::filesystem::path& root) {
  const int threads = affinity_threads();
  const double quota = control_group_quota(root);
  return quota < threads ? std::max(1, static_cast<int>(std::ceil(quota))) : threads;
}

}  // namespace trainer
