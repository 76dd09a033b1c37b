#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device/cuda_source.h"
#include "cuda/device/nvml.h"

namespace trainer::cuda {

struct FreeAndTotal {
  std::int64_t free_bytes = 0, total_bytes = 0;
};

/// Who holds the memory of one GPU. The driver's management library tells it by process; where it does not know this
/// process (in some containers), CUDA's own total − free, which counts every process, stands for it.
class DeviceUsage {
 public:
  using Clock = std::chrono::steady_clock;

  /// Made before this process uses the GPU, so that its own entry can be told from the others'. `ask` is
  /// cudaMemGetInfo; `changes` counts what this process acquired and released.
  DeviceUsage(std::optional<NvmlDevice> nvml, std::function<FreeAndTotal()> ask, std::int64_t own_pid,
              std::shared_ptr<const MemoryChanges> changes);

  /// Once this process uses the GPU.
  void find_this_process();

  /// Asked anew where memory was acquired or released since, or after 200 ms: the question costs more than a step may.
  /// What was known last where the driver knew this process and does not tell now.
  std::int64_t used_bytes(Clock::time_point now);
  /// Others, largest first; where this process is unknown, those that were there before it.
  std::vector<DeviceProcess> other_processes() const;

  /// Whether used_bytes counts this process alone.
  bool knows_this_process() const { return own_pid_ != 0; }
  /// What used_bytes is, in words.
  std::string origin() const;
  /// What was free before this process used the GPU.
  std::optional<std::int64_t> free_before() const { return free_before_; }

 private:
  std::int64_t ask_used_bytes() const;

  std::optional<NvmlDevice> nvml_;
  std::function<FreeAndTotal()> ask_;
  std::int64_t process_pid_;
  std::int64_t own_pid_ = 0;  ///< as the driver counts
  std::vector<DeviceProcess> before_;
  std::optional<std::int64_t> free_before_;
  std::shared_ptr<const MemoryChanges> changes_;

  std::int64_t known_used_bytes_ = 0;
  std::int64_t known_changes_ = -1;
  Clock::time_point known_at_;
};

}  // namespace trainer::cuda
