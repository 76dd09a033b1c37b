#include "cuda/device/pinned_memory.h"

#include <algorithm>

#include "cuda/device/cuda_call.h"
#include "engine/bytes.h"
#include "engine/errors.h"

namespace trainer::cuda {

PinnedMemory::PinnedMemory(std::int64_t num_bytes) {
  void* address = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&address, static_cast<std::size_t>(std::max<std::int64_t>(1, num_bytes)), cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw DeviceError("the system has no " + format_bytes(num_bytes) +
                      " of memory to lock for copies to the GPU: lower train.batch_size, raise `ulimit -l` or the "
                      "container's memory");
  }
  require_cuda(error, "lock memory for copies");
  bytes_ = static_cast<std::byte*>(address);
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(bytes_); }

}  // namespace trainer::cuda
