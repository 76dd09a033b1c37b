#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace trainer::cuda {

/// CUDA's calls that memory comes from, so that tests can stand in for a device.
struct MemoryCalls {
  cudaError_t (*allocate)(void** address, std::size_t num_bytes) = nullptr;
  cudaError_t (*free)(void* address) = nullptr;
  cudaError_t (*synchronize)() = nullptr;
  // The virtual memory API of the driver; null where the device has none.
  CUresult (*reserve)(CUdeviceptr* address, std::size_t num_bytes, std::size_t alignment, CUdeviceptr hint,
                      unsigned long long flags) = nullptr;
  CUresult (*free_range)(CUdeviceptr address, std::size_t num_bytes) = nullptr;
  CUresult (*create)(CUmemGenericAllocationHandle* handle, std::size_t num_bytes, const CUmemAllocationProp* kind,
                     unsigned long long flags) = nullptr;
  CUresult (*release)(CUmemGenericAllocationHandle handle) = nullptr;
  CUresult (*map)(CUdeviceptr address, std::size_t num_bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) = nullptr;
  CUresult (*unmap)(CUdeviceptr address, std::size_t num_bytes) = nullptr;
  CUresult (*allow)(CUdeviceptr address, std::size_t num_bytes, const CUmemAccessDesc* access,
                    std::size_t count) = nullptr;

  bool has_ranges() const { return reserve != nullptr; }
};

/// The real ones, of the device `index`. The driver is asked for its entry points, so that the module does not need
/// libcuda.so.1 to be loaded.
MemoryCalls memory_calls_of(int index);

}  // namespace trainer::cuda
