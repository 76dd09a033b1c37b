#include "cuda/device/memory_calls.h"

#include "cuda/device/cuda_call.h"
#include "cuda/device/cuda_source.h"

namespace trainer::cuda {

namespace {

// The first version that has all of these calls as cuda.h declares them.
constexpr unsigned int entry_point_version = 12000;

template <typename Function>
bool find(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &address, entry_point_version, cudaEnableDefault, &found);
  if (error != cudaSuccess) cudaGetLastError();
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || address == nullptr) return false;
  function = reinterpret_cast<Function>(address);
  return true;
}

/// Whether ranges can be mapped in granules of the size that plans count with.
bool maps_granules(int index) {
  CUresult (*get_attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*get_granularity)(std::size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) = nullptr;
  if (!find("cuDeviceGetAttribute", get_attribute) || !find("cuMemGetAllocationGranularity", get_granularity))
    return false;
  int supported = 0;
  if (get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, index) != CUDA_SUCCESS)
    return false;
  const CUmemAllocationProp kind = device_memory_kind(index);
  std::size_t granularity = 0;
  return supported != 0 && get_granularity(&granularity, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
         granularity > 0 && static_cast<std::size_t>(CudaSource::granule) % granularity == 0;
}

}  // namespace

MemoryCalls memory_calls_of(int index) {
  MemoryCalls calls;
  calls.allocate = [](void** address, std::size_t num_bytes) { return cudaMalloc(address, num_bytes); };
  calls.free = [](void* address) { return cudaFree(address); };
  calls.synchronize = [] { return cudaDeviceSynchronize(); };
  MemoryCalls ranges = calls;
  if (maps_granules(index) && find("cuMemAddressReserve", ranges.reserve) &&
      find("cuMemAddressFree", ranges.free_range) && find("cuMemCreate", ranges.create) &&
      find("cuMemRelease", ranges.release) && find("cuMemMap", ranges.map) && find("cuMemUnmap", ranges.unmap) &&
      find("cuMemSetAccess", ranges.allow))
    return ranges;
  return calls;
}

}  // namespace trainer::cuda
