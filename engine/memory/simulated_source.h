#pragma once

#include <cstdint>

#include "engine/memory/memory_source.h"

namespace trainer {

/// Memory that does not exist, for predictions: acquire and reserve_range answer addresses that are distinct and
/// aligned but must not be touched; acquire and map hand out up to the capacity.
class SimulatedSource final : public MemorySource {
 public:
  /// `capacity` in bytes, at least 0.
  explicit SimulatedSource(std::int64_t capacity);

  void* acquire(std::int64_t num_bytes) override;
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t granule_bytes() const override;
  void* reserve_range(std::int64_t num_bytes) override;
  void release_range(void*, std::int64_t) noexcept override {}
  bool map(void* address, std::int64_t num_bytes) override;
  void unmap(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return capacity_; }
  void set_capacity(std::int64_t num_bytes) override { capacity_ = num_bytes; }
  std::int64_t held() const override { return held_; }

 private:
  void* next_addresses(std::int64_t num_bytes);

  std::int64_t capacity_ = 0;
  std::int64_t held_ = 0;
  std::uintptr_t next_address_;
};

}  // namespace trainer
