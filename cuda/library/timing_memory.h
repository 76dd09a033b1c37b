#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/device/memory_changes.h"

namespace trainer::cuda {

/// CUDA's calls that a timing takes its memory with, so that tests can stand in for a device.
struct TimingCalls {
  cudaError_t (*allocate)(void** address, std::size_t num_bytes) = nullptr;
  cudaError_t (*free)(void* address) = nullptr;
  cudaError_t (*fill)(void* address, int byte, std::size_t num_bytes, cudaStream_t stream) = nullptr;
};
TimingCalls timing_calls();

/// Operands of what is timed on `stream`, filled there, so that no run begins before they are: another stream would not
/// wait for it. Given back together; `changes` is told of both.
class TimingMemory {
 public:
  TimingMemory(const TimingCalls& calls, cudaStream_t stream, MemoryChanges& changes)
      : calls_(calls), stream_(stream), changes_(changes) {}
  ~TimingMemory();
  TimingMemory(const TimingMemory&) = delete;
  TimingMemory& operator=(const TimingMemory&) = delete;

  /// Filled with numbers near 0.01 in f32 and bf16 and near 1 in f16: zeros would let the device run faster than it
  /// will. Null where the device has no room. Throws DeviceError where it fails.
  void* try_take(std::int64_t num_bytes);

 private:
  TimingCalls calls_;
  cudaStream_t stream_;
  MemoryChanges& changes_;
  struct Taken {
    void* address = nullptr;
    std::int64_t num_bytes = 0;
  };
  std::vector<Taken> taken_;
};

/// Milliseconds of the fastest of some runs, which queue on `stream`. Throws DeviceError.
float time_of(const std::function<void()>& run, cudaStream_t stream);

}  // namespace trainer::cuda
