#include "cuda/device/cuda_facts.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cuda/device/cuda_call.h"
#include "cuda/device/cuda_device.h"
#include "cuda/device/nvml.h"
#include "cuda/library/nccl.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

int attribute_of(int index, cudaDeviceAttr attribute) {
  int value = 0;
  require_cuda(cudaDeviceGetAttribute(&value, attribute, index), "look at the GPU");
  return value;
}

std::string problem_of(int index, const CudaDeviceInfo& info) {
  if (attribute_of(index, cudaDevAttrComputeMode) == cudaComputeModeProhibited)
    return fmt::format("{} is closed to programs: `nvidia-smi -i {} -c DEFAULT` opens it; or use device.type=cpu",
                       info.name, index);
  return explain_unusable(info.name, info.compute_capability, built_architectures());
}

/// What NVML knows without the device being started.
void add_readings(CudaDeviceInfo& info) {
  const NvmlCalls* calls = load_nvml();
  if (calls == nullptr) return;
  const std::optional<NvmlDevice> device = NvmlDevice::find(*calls, pci_bus_id(info.index));
  if (!device) return;
  info.free_bytes = device->free_bytes().value_or(0);
  info.sm_clock = device->sm_clock();
  info.memory_clock = device->memory_clock();
  for (const DeviceProcess& process : device->processes().value_or(std::vector<DeviceProcess>{}))
    if (process.pid != getpid()) info.processes.push_back(process);
  std::stable_sort(info.processes.begin(), info.processes.end(),
                   [](const auto& a, const auto& b) { return a.num_bytes > b.num_bytes; });
}

void try_device(CudaDeviceInfo& info) {
  try {
    const std::unique_ptr<CudaDevice> device = make_cuda_device(info.index, {});
    info.free_bytes = device->available_bytes();
    info.used_bytes_origin = device->used_bytes_origin();
    info.outside_bytes = device->outside_allocator();
    info.cudnn_properties = device->cudnn_properties();
    device->try_libraries();
    info.notes = device->notes();
  } catch (const DeviceError& error) {
    info.problem = error.what();
  }
}

/// 91900 is 9.19.0.
std::string library_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string nccl_text() {
  try {
    return nccl_version_text(nccl().version());
  } catch (const DeviceError&) {  // who needs it is told
    return {};
  }
}

std::string driver_text(const CudaVersions& versions) {
  if (versions.driver == 0) return {};
  const NvmlCalls* calls = load_nvml();
  const std::string driver = calls != nullptr ? nvml_driver_version(*calls) : std::string();
  const std::string serves = fmt::format("CUDA {}", version_text(versions.driver));
  return driver.empty() ? serves : fmt::format("{} ({})", driver, serves);
}

}  // namespace

std::string built_architectures() { return TRAINER_CUDA_IMAGES; }

std::string pci_bus_id(int index) {
  std::array<char, 32> text{};
  require_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), index), "look at the GPU");
  return text.data();
}

CudaDeviceInfo describe_device(int index) {
  int count = 0;
  require_cuda(cudaGetDeviceCount(&count), "count the GPUs");
  if (count == 0) throw DeviceError(explain_failure(cudaErrorNoDevice, "count the GPUs", cuda_versions()));
  if (index >= count) throw DeviceError(explain_wrong_index(index, count));
  cudaDeviceProp properties{};
  require_cuda(cudaGetDeviceProperties(&properties, index), "look at the GPU");
  CudaDeviceInfo info;
  info.index = index;
  info.name = properties.name;
  info.compute_capability = 10 * properties.major + properties.minor;
  info.total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.problem = problem_of(index, info);
  return info;
}

CudaFacts gather_facts(bool tries_devices) {
  CudaFacts facts;
  const CudaVersions versions = cuda_versions();
  facts.toolkit = version_text(versions.toolkit);
  facts.cublas = library_version_text(cublasLtGetVersion());
  facts.cudnn = library_version_text(cudnnGetVersion());
  facts.driver = driver_text(versions);
  facts.architectures = built_architectures();
  if (tries_devices) facts.nccl = nccl_text();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    facts.problem = explain_failure(error != cudaSuccess ? error : cudaErrorNoDevice, "count the GPUs", versions);
    return facts;
  }
  for (int index = 0; index < count; ++index) {
    try {
      CudaDeviceInfo info = describe_device(index);
      add_readings(info);
      if (tries_devices && info.problem.empty()) try_device(info);
      facts.devices.push_back(std::move(info));
    } catch (const DeviceError& failure) {
      // One broken GPU does not hide the others.
      CudaDeviceInfo info;
      info.index = index;
      info.problem = failure.what();
      facts.devices.push_back(std::move(info));
    }
  }
  return facts;
}

}  // namespace trainer::cuda
