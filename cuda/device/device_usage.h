#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device/memory_changes.h"
#include "cuda/device/nvml.h"

namespace trainer::cuda {

struct FreeAndTotal {
  std::int64_t free_bytes = 0, total_bytes = 0;
};

/// Who holds the memory of one GPU. The driver's management library tells it by process; where it does not know this
/// process (in some containers), CUDA's own total − free, which counts every process, stands for it.
///
/// Note [Asking beside the steps]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// Either question takes the driver's locks and longer than a small step. What is read at a step is therefore
/// arithmetic: what is held beside that which this process takes and gives back while it runs, which changes seldom,
/// was found by the last question, as its answer less what was taken then; what is taken now is counted by the takers
/// (MemoryChanges). A thread of its own asks the management library again every 2 s, beginning at once. CUDA's question
/// needs the context that the training thread works with, so it is not asked by another thread, nor at steps: only when
/// the answer is to be exact.
class DeviceUsage {
 public:
  static constexpr std::chrono::milliseconds time_between_questions{2000};

  /// Made before this process uses the GPU, so that its own entry can be told from the others'. `ask` is
  /// cudaMemGetInfo; `changes` counts what this process acquired and released.
  DeviceUsage(std::optional<NvmlDevice> nvml, std::function<FreeAndTotal()> ask, std::int64_t own_pid,
              std::shared_ptr<const MemoryChanges> changes);
  ~DeviceUsage();
  DeviceUsage(DeviceUsage&&) noexcept;
  DeviceUsage& operator=(DeviceUsage&&) noexcept;

  /// Once this process uses the GPU. From here on, where the library tells what it holds, a thread asks on until this
  /// object goes.
  void find_this_process(std::chrono::milliseconds between_questions = time_between_questions);

  /// As known last, see Note [Asking beside the steps]. Asks nothing.
  std::int64_t used_bytes() const;
  /// The same, asked now. What is known where the driver knew this process and does not tell now.
  std::int64_t ask_used_bytes();
  /// Others, largest first; where this process is unknown, those that were there before it.
  std::vector<DeviceProcess> other_processes() const;

  /// Whether used_bytes counts this process alone.
  bool knows_this_process() const { return own_pid_ != 0; }
  /// What used_bytes is, in words.
  std::string origin() const;
  /// What was free before this process used the GPU.
  std::optional<std::int64_t> free_before() const { return free_before_; }

 private:
  class Watch;

  std::optional<NvmlDevice> nvml_;
  std::function<FreeAndTotal()> ask_;
  std::int64_t process_pid_;
  std::int64_t own_pid_ = 0;  ///< as the driver counts
  std::vector<DeviceProcess> before_;
  std::optional<std::int64_t> free_before_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace trainer::cuda
