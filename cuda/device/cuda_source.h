#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/device/memory_calls.h"
#include "cuda/device/memory_changes.h"
#include "engine/memory/memory_source.h"

namespace trainer::cuda {

/// Memory of one GPU: segments by cudaMalloc, and ranges over the driver's virtual memory API, where the device has it.
/// What one map backs is one piece of memory, and the driver unmaps only whole pieces: unmap takes what one call of map
/// backed, or several, as the allocator does, page by page.
class CudaSource final : public MemorySource {
 public:
  /// What ranges are mapped in, on every GPU: plans count with it.
  static constexpr std::int64_t granule = std::int64_t{2} << 20;

  /// `changes` is told of every acquire, release, map and unmap.
  CudaSource(int index, std::int64_t capacity, const MemoryCalls& calls, std::shared_ptr<MemoryChanges> changes);

  void* acquire(std::int64_t num_bytes) override;
  /// Waits for the device first, as unmap does.
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t granule_bytes() const override { return calls_.has_ranges() ? granule : 0; }
  void* reserve_range(std::int64_t num_bytes) override;
  void release_range(void* address, std::int64_t num_bytes) noexcept override;
  bool map(void* address, std::int64_t num_bytes) override;
  /// Waits for the device first: kernels that are queued may still use what is taken away.
  void unmap(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return capacity_; }
  void set_capacity(std::int64_t num_bytes) override { capacity_ = num_bytes; }
  std::int64_t held() const override { return held_; }

 private:
  CUresult map_whole(CUdeviceptr address, std::size_t num_bytes);

  int index_;
  std::int64_t capacity_;
  std::int64_t held_ = 0;
  MemoryCalls calls_;
  std::shared_ptr<MemoryChanges> changes_;
};

/// Pinned memory of the device `index`, as the driver's calls want it named.
CUmemAllocationProp device_memory_kind(int index);

}  // namespace trainer::cuda
