#include "cuda/device/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace trainer::cuda {

namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<NvmlCalls> open_library() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  NvmlCalls calls;
  const bool complete =
      find(library, "nvmlInit_v2", calls.init) && find(library, "nvmlSystemGetDriverVersion", calls.driver_version) &&
      find(library, "nvmlDeviceGetHandleByPciBusId_v2", calls.handle_of) &&
      find(library, "nvmlDeviceGetComputeRunningProcesses_v3", calls.processes) &&
      find(library, "nvmlDeviceGetMemoryInfo", calls.memory) && find(library, "nvmlDeviceGetClockInfo", calls.clock);
  find(library, "nvmlDeviceGetCount_v2", calls.count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", calls.handle_at);
  find(library, "nvmlDeviceGetName", calls.name);
  find(library, "nvmlDeviceGetUtilizationRates", calls.utilization);
  find(library, "nvmlDeviceGetTemperature", calls.temperature);
  find(library, "nvmlDeviceGetPowerUsage", calls.power);
  if (complete && calls.init() == NvmlCalls::success) return calls;
  dlclose(library);
  return {};
}

std::string process_name(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

const NvmlCalls* load_nvml() {
  static const std::optional<NvmlCalls> calls = open_library();
  return calls ? &*calls : nullptr;
}

std::string nvml_driver_version(const NvmlCalls& calls) {
  std::array<char, 96> text{};
  if (calls.driver_version(text.data(), text.size() - 1) != NvmlCalls::success) return {};
  return text.data();
}

std::optional<NvmlDevice> NvmlDevice::find(const NvmlCalls& calls, const std::string& pci_bus_id) {
  NvmlCalls::Handle handle = nullptr;
  if (calls.handle_of(pci_bus_id.c_str(), &handle) != NvmlCalls::success) return {};
  return NvmlDevice(calls, handle);
}

std::optional<std::vector<DeviceProcess>> NvmlDevice::processes() const {
  std::vector<NvmlCalls::Process> listed(16);
  while (true) {
    auto count = static_cast<unsigned int>(listed.size());
    const int result = calls_->processes(handle_, &count, listed.data());
    if (result == NvmlCalls::success) {
      listed.resize(std::min<std::size_t>(count, listed.size()));
      break;
    }
    if (result != NvmlCalls::insufficient_size || listed.size() >= 65536) return {};
    // Others may start between the calls.
    listed.resize(2 * std::max<std::size_t>(count, listed.size()));
  }
  std::vector<DeviceProcess> processes;
  for (const NvmlCalls::Process& process : listed) {
    if (process.used_bytes == NvmlCalls::not_available) return {};
    processes.push_back({process.pid, process_name(process.pid), static_cast<std::int64_t>(process.used_bytes)});
  }
  std::sort(processes.begin(), processes.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return processes;
}

std::optional<std::int64_t> NvmlDevice::used_bytes() const {
  NvmlCalls::Memory memory{};
  if (calls_->memory(handle_, &memory) != NvmlCalls::success) return {};
  return static_cast<std::int64_t>(memory.used);
}

std::optional<std::int64_t> NvmlDevice::free_bytes() const {
  NvmlCalls::Memory memory{};
  if (calls_->memory(handle_, &memory) != NvmlCalls::success) return {};
  return static_cast<std::int64_t>(memory.free);
}

int NvmlDevice::clock(int kind) const {
  unsigned int megahertz = 0;
  return calls_->clock(handle_, kind, &megahertz) == NvmlCalls::success ? static_cast<int>(megahertz) : 0;
}
int NvmlDevice::sm_clock() const { return clock(NvmlCalls::sm_clock); }
int NvmlDevice::memory_clock() const { return clock(NvmlCalls::memory_clock); }

std::vector<GpuUsage> gpu_usages(const NvmlCalls& calls) {
  std::vector<GpuUsage> gpus;
  unsigned int count = 0;
  if (calls.count == nullptr || calls.handle_at == nullptr || calls.count(&count) != NvmlCalls::success) return gpus;
  for (unsigned int index = 0; index < count; ++index) {
    NvmlCalls::Handle handle = nullptr;
    if (calls.handle_at(index, &handle) != NvmlCalls::success) continue;  // one that this container may not see
    GpuUsage gpu{.index = static_cast<int>(index)};
    std::array<char, 96> name{};
    if (calls.name != nullptr && calls.name(handle, name.data(), name.size() - 1) == NvmlCalls::success)
      gpu.name = name.data();
    if (NvmlCalls::Memory memory{}; calls.memory(handle, &memory) == NvmlCalls::success) {
      gpu.used_bytes = static_cast<std::int64_t>(memory.used);
      gpu.total_bytes = static_cast<std::int64_t>(memory.total);
    }
    if (NvmlCalls::Utilization busy{};
        calls.utilization != nullptr && calls.utilization(handle, &busy) == NvmlCalls::success)
      gpu.busy_percent = static_cast<int>(busy.gpu);
    unsigned int value = 0;
    if (calls.temperature != nullptr && calls.temperature(handle, NvmlCalls::gpu_sensor, &value) == NvmlCalls::success)
      gpu.celsius = static_cast<int>(value);
    if (calls.power != nullptr && calls.power(handle, &value) == NvmlCalls::success) gpu.watts = value / 1000.0;
    gpu.processes = NvmlDevice(calls, handle).processes().value_or(std::vector<DeviceProcess>{});
    std::ranges::stable_sort(gpu.processes, std::ranges::greater{}, &DeviceProcess::num_bytes);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::int64_t find_own_pid(const std::vector<DeviceProcess>& before, const std::vector<DeviceProcess>& after,
                          std::int64_t own_pid) {
  const auto lists = [](const std::vector<DeviceProcess>& processes, std::int64_t pid) {
    return std::any_of(processes.begin(), processes.end(), [&](const DeviceProcess& p) { return p.pid == pid; });
  };
  std::vector<std::int64_t> newcomers;
  for (const DeviceProcess& process : after)
    if (!lists(before, process.pid)) newcomers.push_back(process.pid);
  // In a container another process may have had this one's number outside before.
  if (lists(after, own_pid) && (!lists(before, own_pid) || newcomers.size() != 1)) return own_pid;
  return newcomers.size() == 1 ? newcomers.front() : 0;
}

}  // namespace trainer::cuda
