#include "cuda/library/timing_memory.h"

#include <algorithm>
#include <limits>

#include "cuda/device/cuda_call.h"
#include "cuda/device/stream_handles.h"

namespace trainer::cuda {

TimingCalls timing_calls() {
  return {.allocate = [](void** address, std::size_t num_bytes) { return cudaMalloc(address, num_bytes); },
          .free = [](void* address) { return cudaFree(address); },
          .fill = [](void* address, int byte, std::size_t num_bytes,
                     cudaStream_t stream) { return cudaMemsetAsync(address, byte, num_bytes, stream); }};
}

TimingMemory::~TimingMemory() {
  for (const Taken& taken : taken_) {
    MemoryChanges::Change change(changes_);
    calls_.free(taken.address);
    change.add(-taken.num_bytes);
  }
}

void* TimingMemory::try_take(std::int64_t num_bytes) {
  Taken taken{.num_bytes = std::max<std::int64_t>(num_bytes, 1)};
  const auto size = static_cast<std::size_t>(taken.num_bytes);
  {
    MemoryChanges::Change change(changes_);
    const cudaError_t error = calls_.allocate(&taken.address, size);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    require_cuda(error, "take memory to time the libraries in");
    change.add(taken.num_bytes);
  }
  taken_.push_back(taken);
  require_cuda(calls_.fill(taken.address, 0x3C, size, stream_), "fill memory to time the libraries in");
  return taken.address;
}

float time_of(const std::function<void()>& run, cudaStream_t stream) {
  constexpr int num_runs = 5;
  TimedEvent begin, end;
  run();  // loads the kernel
  float best = std::numeric_limits<float>::max();
  for (int i = 0; i < num_runs; ++i) {
    begin.record(stream);
    run();
    end.record(stream);
    end.wait();
    best = std::min(best, end.milliseconds_since(begin));
  }
  return best;
}

}  // namespace trainer::cuda
