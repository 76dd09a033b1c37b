#pragma once

#include <cstdint>

#include "engine/memory/memory_source.h"

namespace trainer {

/// Memory of this machine, straight from the kernel: private anonymous mappings, zeroed, and resident only once
/// touched. Segments of 2 MiB and more are aligned to 2 MiB and advised for huge pages.
/// release unmaps, so what is given back leaves the process at once.
class HostSource final : public MemorySource {
 public:
  /// `capacity` in bytes, at least 0. It is a bound declared by the caller; the kernel may have less.
  explicit HostSource(std::int64_t capacity);

  /// nullptr beyond the capacity and where the kernel refuses for lack of memory; DeviceError where it refuses for
  /// any other reason.
  void* acquire(std::int64_t num_bytes) override;
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t held() const override { return held_; }

 private:
  std::int64_t capacity_ = 0;
  std::int64_t held_ = 0;
};

}  // namespace trainer
