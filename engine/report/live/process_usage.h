#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

/// What the system tells of a process.
struct ProcessUsage {
  std::int64_t pid = 0;
  std::string name{};        ///< of its program, as the system shortens it
  double cpu_seconds = 0;    ///< that its threads have computed
  double begin_seconds = 0;  ///< when it began, in seconds since the system did
  double now_seconds = 0;    ///< when this was asked, likewise
  std::int64_t resident_bytes = 0;
  std::int64_t num_threads = 0;
};

/// Reads /proc under `root`; nothing where there is no such process, or the system does not tell.
std::optional<ProcessUsage> process_usage(std::int64_t pid, const std::string& root = "/");

/// Processors that it kept busy between the two, or since it began where `before` is of another process or none.
double busy_processors(const std::optional<ProcessUsage>& before, const ProcessUsage& now);

}  // namespace trainer
