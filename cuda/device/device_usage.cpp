#include "cuda/device/device_usage.h"

#include <algorithm>
#include <utility>

namespace trainer::cuda {

namespace {

constexpr std::chrono::milliseconds longest_known{200};

}  // namespace

DeviceUsage::DeviceUsage(std::optional<NvmlDevice> nvml, std::function<FreeAndTotal()> ask, std::int64_t own_pid,
                         std::shared_ptr<const MemoryChanges> changes)
    : nvml_(nvml), ask_(std::move(ask)), process_pid_(own_pid), changes_(std::move(changes)) {
  if (!nvml_) return;
  before_ = nvml_->processes().value_or(std::vector<DeviceProcess>{});
  free_before_ = nvml_->free_bytes();
}

void DeviceUsage::find_this_process() {
  if (!nvml_) return;
  const auto after = nvml_->processes();
  if (!after) return;
  own_pid_ = find_own_pid(before_, *after, process_pid_);
  for (const DeviceProcess& process : *after)
    if (process.pid == own_pid_) known_used_bytes_ = process.num_bytes;
}

std::int64_t DeviceUsage::ask_used_bytes() const {
  if (own_pid_ == 0) {
    const FreeAndTotal memory = ask_();
    return memory.total_bytes - memory.free_bytes;
  }
  if (const auto processes = nvml_->processes())
    for (const DeviceProcess& process : *processes)
      if (process.pid == own_pid_) return process.num_bytes;
  // Where it once does not tell, CUDA's count of all processes would be another thing under the same name.
  return known_used_bytes_;
}

std::int64_t DeviceUsage::used_bytes(Clock::time_point now) {
  if (known_changes_ == changes_->count && now - known_at_ < longest_known) return known_used_bytes_;
  known_used_bytes_ = ask_used_bytes();
  known_changes_ = changes_->count;
  known_at_ = now;
  return known_used_bytes_;
}

std::vector<DeviceProcess> DeviceUsage::other_processes() const {
  if (!nvml_) return {};
  std::vector<DeviceProcess> others = nvml_->processes().value_or(std::vector<DeviceProcess>{});
  std::erase_if(others, [&](const DeviceProcess& process) {
    if (own_pid_ != 0) return process.pid == own_pid_;
    return std::none_of(before_.begin(), before_.end(), [&](const auto& known) { return known.pid == process.pid; });
  });
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.num_bytes > b.num_bytes; });
  return others;
}

std::string DeviceUsage::origin() const {
  if (own_pid_ != 0) return "this process, by NVML";
  if (!nvml_) return "all processes, by cudaMemGetInfo: libnvidia-ml.so.1 is not found";
  return "all processes, by cudaMemGetInfo: NVML does not tell which of them is this one";
}

}  // namespace trainer::cuda
