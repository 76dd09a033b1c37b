#pragma once

#include <cstdint>

#include "engine/memory/memory_source.h"

namespace trainer {

/// Memory of this machine, straight from the kernel: private anonymous mappings, zeroed, and resident only once
/// touched. Segments of 2 MiB and more are aligned to 2 MiB and advised for huge pages.
/// release and unmap return pages to the kernel, so what is given back leaves the process at once; touching it is a
/// fault. Mapped again, it is zeroed anew.
class HostSource final : public MemorySource {
 public:
  /// `capacity` in bytes, at least 0. It is a bound declared by the caller; the kernel may have less.
  explicit HostSource(std::int64_t capacity);

  /// nullptr beyond the capacity and where the kernel refuses for lack of memory; DeviceError where it refuses for
  /// any other reason.
  void* acquire(std::int64_t num_bytes) override;
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t granule_bytes() const override;
  void* reserve_range(std::int64_t num_bytes) override;
  void release_range(void* address, std::int64_t num_bytes) noexcept override;
  /// false beyond the capacity and where the kernel refuses for lack of memory, as acquire.
  bool map(void* address, std::int64_t num_bytes) override;
  void unmap(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return capacity_; }
  void set_capacity(std::int64_t num_bytes) override { capacity_ = num_bytes; }
  std::int64_t held() const override { return held_; }

 private:
  std::int64_t capacity_ = 0;
  std::int64_t held_ = 0;
};

}  // namespace trainer
