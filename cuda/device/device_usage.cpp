#include "cuda/device/device_usage.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace trainer::cuda {

/// What is held beside what this process counts itself, and the thread that asks for it again.
class DeviceUsage::Watch {
 public:
  explicit Watch(std::shared_ptr<const MemoryChanges> changes) : changes_(std::move(changes)) {}

  std::int64_t used_bytes() const { return beside_.load(std::memory_order_relaxed) + changes_->held(); }

  /// Calls `question`, which answers what is used, or nothing where that is not told. An answer during which something
  /// was taken or given back does not say how much of it was this process's own.
  template <typename Question>
  void ask(const Question& question) {
    constexpr int most_questions = 4;
    for (int i = 0; i < most_questions; ++i) {
      const std::int64_t num_ended = changes_->num_ended(), held = changes_->held();
      const std::optional<std::int64_t> used = question();
      if (!used) return;
      if (changes_->num_begun() != num_ended) continue;
      beside_.store(*used - held, std::memory_order_relaxed);
      return;
    }
  }

  template <typename Question>
  void keep_asking(Question question, std::chrono::milliseconds between) {
    thread_ = std::jthread([this, question = std::move(question), between](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any until;
      std::unique_lock lock(mutex);
      while (!stop.stop_requested()) {
        try {
          ask(question);
        } catch (...) {  // such as no memory for the list of processes: the last answer stands
        }
        until.wait_for(lock, stop, between, [] { return false; });
      }
    });
  }

 private:
  std::shared_ptr<const MemoryChanges> changes_;
  std::atomic<std::int64_t> beside_{0};
  std::jthread thread_;  ///< goes first
};

namespace {

std::optional<std::int64_t> bytes_of(const NvmlDevice& nvml, std::int64_t pid) {
  if (const auto processes = nvml.processes())
    for (const DeviceProcess& process : *processes)
      if (process.pid == pid) return process.num_bytes;
  return {};
}

}  // namespace

DeviceUsage::DeviceUsage(std::optional<NvmlDevice> nvml, std::function<FreeAndTotal()> ask, std::int64_t own_pid,
                         std::shared_ptr<const MemoryChanges> changes)
    : nvml_(nvml), ask_(std::move(ask)), process_pid_(own_pid), watch_(std::make_unique<Watch>(std::move(changes))) {
  if (!nvml_) return;
  before_ = nvml_->processes().value_or(std::vector<DeviceProcess>{});
  free_before_ = nvml_->free_bytes();
}

DeviceUsage::~DeviceUsage() = default;
DeviceUsage::DeviceUsage(DeviceUsage&&) noexcept = default;
DeviceUsage& DeviceUsage::operator=(DeviceUsage&&) noexcept = default;

void DeviceUsage::find_this_process(std::chrono::milliseconds between_questions) {
  if (nvml_)
    if (const auto after = nvml_->processes()) own_pid_ = find_own_pid(before_, *after, process_pid_);
  ask_used_bytes();
  if (own_pid_ == 0) return;
  watch_->keep_asking([nvml = *nvml_, pid = own_pid_] { return bytes_of(nvml, pid); }, between_questions);
}

std::int64_t DeviceUsage::used_bytes() const { return watch_->used_bytes(); }

std::int64_t DeviceUsage::ask_used_bytes() {
  // Where the driver once does not tell, CUDA's count of all processes would be another thing under the same name.
  watch_->ask([this]() -> std::optional<std::int64_t> {
    if (own_pid_ != 0) return bytes_of(*nvml_, own_pid_);
    const FreeAndTotal memory = ask_();
    return memory.total_bytes - memory.free_bytes;
  });
  return used_bytes();
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
