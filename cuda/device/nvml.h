#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/gpu_usage.h"

namespace trainer::cuda {

/// libnvidia-ml's calls as its documentation declares them; the toolkit ships no nvml.h, and the library comes with the
/// driver, so that it is looked for when the program runs. Tests put their own here.
struct NvmlCalls {
  using Handle = void*;
  /// nvmlProcessInfo_v2_t
  struct Process {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
  };
  /// nvmlMemory_t
  struct Memory {
    unsigned long long total, free, used;
  };
  /// nvmlUtilization_t: percents of the last moments in which a kernel ran, and memory was read or written.
  struct Utilization {
    unsigned int gpu, memory;
  };
  static constexpr int gpu_sensor = 0;
  static constexpr int success = 0;
  static constexpr int insufficient_size = 7;
  /// What `used_bytes` is where the driver does not tell.
  static constexpr unsigned long long not_available = ~0ULL;
  static constexpr int sm_clock = 1, memory_clock = 2;

  int (*init)() = nullptr;
  int (*driver_version)(char* text, unsigned int length) = nullptr;
  int (*handle_of)(const char* pci_bus_id, Handle* handle) = nullptr;
  int (*processes)(Handle handle, unsigned int* count, Process* processes) = nullptr;
  int (*memory)(Handle handle, Memory* memory) = nullptr;
  int (*clock)(Handle handle, int kind, unsigned int* megahertz) = nullptr;
  // What only shows GPUs to people; null where the library lacks one.
  int (*count)(unsigned int* count) = nullptr;
  int (*handle_at)(unsigned int index, Handle* handle) = nullptr;
  int (*name)(Handle handle, char* text, unsigned int length) = nullptr;
  int (*utilization)(Handle handle, Utilization* utilization) = nullptr;
  int (*temperature)(Handle handle, int sensor, unsigned int* celsius) = nullptr;
  int (*power)(Handle handle, unsigned int* milliwatts) = nullptr;
};

/// Loaded once for the process; null where there is no libnvidia-ml.so.1, or it does not start.
const NvmlCalls* load_nvml();

/// "580.65.06"; empty where unknown.
std::string nvml_driver_version(const NvmlCalls& calls);

/// One GPU as the driver's management library sees it: what nvidia-smi shows.
class NvmlDevice {
 public:
  /// `pci_bus_id` as cudaDeviceGetPCIBusId writes it: indices differ under CUDA_VISIBLE_DEVICES.
  static std::optional<NvmlDevice> find(const NvmlCalls& calls, const std::string& pci_bus_id);

  /// Every process that computes on it, in the order of their pids; empty optional where the driver does not tell.
  std::optional<std::vector<DeviceProcess>> processes() const;
  /// Of all processes and the driver.
  std::optional<std::int64_t> used_bytes() const;
  std::optional<std::int64_t> free_bytes() const;
  /// Now, in MHz; 0 where unknown.
  int sm_clock() const;
  int memory_clock() const;

 private:
  friend std::vector<GpuUsage> gpu_usages(const NvmlCalls& calls);

  NvmlDevice(const NvmlCalls& calls, NvmlCalls::Handle handle) : calls_(&calls), handle_(handle) {}
  int clock(int kind) const;

  const NvmlCalls* calls_;
  NvmlCalls::Handle handle_;
};

/// What the library tells of every GPU of the machine, in its order. Empty where it does not count them.
std::vector<GpuUsage> gpu_usages(const NvmlCalls& calls);

/// Which of `after` is this process, which has just begun to use the GPU: the one of `own_pid`, or, in a container
/// whose processes the driver knows by other numbers, the only one that was not there `before`, also where another
/// process had the number `own_pid` then. 0: none for certain.
std::int64_t find_own_pid(const std::vector<DeviceProcess>& before, const std::vector<DeviceProcess>& after,
                          std::int64_t own_pid);

}  // namespace trainer::cuda
