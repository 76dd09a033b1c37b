#pragma once

#include <filesystem>
#include <string>

namespace trainer {

/// Model name as /proc/cpuinfo tells it: "AMD EPYC 9654 96-Core Processor"; "unknown CPU" where it does not.
std::string processor_name();

/// Threads that this process may keep busy: the CPUs of its affinity mask, or what the CPU quota of its control groups
/// (version 1 or 2, looked for under `root`) amounts to, rounded up, if fewer. At least 1.
int usable_threads(const std::filesystem::path& root = "/");

}  // namespace trainer
