#pragma once

#include <cstdint>

namespace trainer {

/// Where an allocator gets its segments from: the device, the host, or nothing at all (simulation).
/// Sizes are bytes, multiples of the allocator's granule.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  /// Address of a new segment of `num_bytes`, aligned to at least 512 bytes, or nullptr where the source has no
  /// more. Never throws for lack of memory; throws DeviceError where the device itself is broken.
  virtual void* acquire(std::int64_t num_bytes) = 0;
  /// Gives back what acquire returned, with the same size.
  virtual void release(void* address, std::int64_t num_bytes) noexcept = 0;
  /// Bytes that acquire may hand out in total; acquire fails beyond it.
  virtual std::int64_t capacity() const = 0;
  /// Bytes handed out now.
  virtual std::int64_t held() const = 0;
};

}  // namespace trainer
