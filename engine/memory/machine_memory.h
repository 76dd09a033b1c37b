#pragma once

#include <cstdint>
#include <filesystem>

namespace trainer {

/// What this machine, or the container that the process runs in, has for it. Bytes; 0 where the system does not tell.
struct MachineMemory {
  /// MemTotal of /proc/meminfo, or the lowest memory limit of the process's control groups if lower.
  std::int64_t total = 0;
  /// What can be had without swapping: MemAvailable of /proc/meminfo, or what a control group's limit leaves if lower.
  /// File pages count as available in both, since the kernel drops them when memory is asked for. Nor more than the
  /// process may still map under its limits (ulimit -v, ulimit -d).
  std::int64_t available = 0;
};

/// Reads /proc and /sys/fs/cgroup (versions 1 and 2, each group up to the root) under `root`.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

/// Bytes of this process that are in memory now (/proc/self/statm), to within some pages; 0 where the system does not
/// tell. Cheap, and does not touch the heap: it is called every step.
std::int64_t resident_bytes() noexcept;

/// The most bytes of this process that were in memory at once (VmHWM of /proc/self/status); 0 where the system does not
/// tell.
std::int64_t peak_resident_bytes();

}  // namespace trainer
