#pragma once

#include <cstdint>

#include "engine/memory/memory_source.h"

namespace trainer {

/// Memory that does not exist, for predictions: acquire answers addresses that are distinct and aligned but must not
/// be touched, up to the capacity.
class SimulatedSource final : public MemorySource {
 public:
  /// `capacity` in bytes, at least 0.
  explicit SimulatedSource(std::int64_t capacity);

  void* acquire(std::int64_t num_bytes) override;
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t held() const override { return held_; }

 private:
  std::int64_t capacity_ = 0;
  std::int64_t held_ = 0;
  std::uintptr_t next_address_;
};

}  // namespace trainer
