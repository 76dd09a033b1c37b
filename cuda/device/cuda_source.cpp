#include "cuda/device/cuda_source.h"

#include <utility>

#include "cuda/device/cuda_call.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

/// The driver's codes have the numbers of the runtime's.
cudaError_t runtime_error(CUresult result) { return static_cast<cudaError_t>(result); }

CUdeviceptr as_device_pointer(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

CUmemAllocationProp device_memory_kind(int index) {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = index;
  return kind;
}

CudaSource::CudaSource(int index, std::int64_t capacity, const MemoryCalls& calls,
                       std::shared_ptr<MemoryChanges> changes)
    : index_(index), capacity_(capacity), calls_(calls), changes_(std::move(changes)) {
  require_internal(capacity >= 0, "a capacity is not negative");
}

void* CudaSource::acquire(std::int64_t num_bytes) {
  require_internal(num_bytes > 0, "a segment has at least one byte");
  if (num_bytes > capacity_ - held_) return nullptr;
  void* address = nullptr;
  MemoryChanges::Change change(*changes_);
  const cudaError_t error = calls_.allocate(&address, static_cast<std::size_t>(num_bytes));
  if (error == cudaErrorMemoryAllocation) {
    // Taken back, so that the next launch does not find it and take it for its own.
    cudaGetLastError();
    return nullptr;
  }
  require_cuda(error, "acquire memory of the GPU");
  held_ += num_bytes;
  change.add(num_bytes);
  return address;
}

void CudaSource::release(void* address, std::int64_t num_bytes) noexcept {
  // A device that failed has said so elsewhere, and its memory is gone with it.
  if (calls_.synchronize() != cudaSuccess) cudaGetLastError();
  MemoryChanges::Change change(*changes_);
  if (calls_.free(address) != cudaSuccess) cudaGetLastError();
  held_ -= num_bytes;
  change.add(-num_bytes);
}

void* CudaSource::reserve_range(std::int64_t num_bytes) {
  require_internal(calls_.has_ranges(), "ranges are asked of a source that has them");
  CUdeviceptr address = 0;
  require_cuda(runtime_error(calls_.reserve(&address, static_cast<std::size_t>(num_bytes), granule, 0, 0)),
               "reserve addresses of the GPU");
  return reinterpret_cast<void*>(address);
}

void CudaSource::release_range(void* address, std::int64_t num_bytes) noexcept {
  calls_.free_range(as_device_pointer(address), static_cast<std::size_t>(num_bytes));
}

CUresult CudaSource::map_whole(CUdeviceptr address, std::size_t num_bytes) {
  const CUmemAllocationProp kind = device_memory_kind(index_);
  CUmemGenericAllocationHandle handle{};
  CUresult result = calls_.create(&handle, num_bytes, &kind, 0);
  if (result != CUDA_SUCCESS) return result;
  result = calls_.map(address, num_bytes, 0, handle, 0);
  // From here on the mapping alone holds the memory: unmap frees it.
  calls_.release(handle);
  if (result != CUDA_SUCCESS) return result;
  CUmemAccessDesc access{};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  result = calls_.allow(address, num_bytes, &access, 1);
  if (result != CUDA_SUCCESS) calls_.unmap(address, num_bytes);
  return result;
}

bool CudaSource::map(void* address, std::int64_t num_bytes) {
  require_internal(num_bytes > 0 && num_bytes % granule == 0, "whole granules are mapped");
  if (num_bytes > capacity_ - held_) return false;
  MemoryChanges::Change change(*changes_);
  const CUresult result = map_whole(as_device_pointer(address), static_cast<std::size_t>(num_bytes));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
  require_cuda(runtime_error(result), "map memory of the GPU");
  held_ += num_bytes;
  change.add(num_bytes);
  return true;
}

void CudaSource::unmap(void* address, std::int64_t num_bytes) noexcept {
  if (calls_.synchronize() != cudaSuccess) cudaGetLastError();
  MemoryChanges::Change change(*changes_);
  calls_.unmap(as_device_pointer(address), static_cast<std::size_t>(num_bytes));
  held_ -= num_bytes;
  change.add(-num_bytes);
}

}  // namespace trainer::cuda
