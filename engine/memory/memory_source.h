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

  // Expandable segments: address space that is backed with memory piece by piece.

  /// Bytes that map and unmap work in whole multiples of; 0: this source has no address ranges.
  virtual std::int64_t granule_bytes() const { return 0; }
  /// Address space without memory behind it, for release_range; throws DeviceError where it is refused.
  virtual void* reserve_range([[maybe_unused]] std::int64_t num_bytes) { return nullptr; }
  virtual void release_range([[maybe_unused]] void* address, [[maybe_unused]] std::int64_t num_bytes) noexcept {}
  /// Backs a part of a range, whole granules, with memory; false, and nothing changed, where the source has no more.
  virtual bool map([[maybe_unused]] void* address, [[maybe_unused]] std::int64_t num_bytes) { return false; }
  /// Takes the memory behind whole granules away; they were mapped, by one call of map or several.
  virtual void unmap([[maybe_unused]] void* address, [[maybe_unused]] std::int64_t num_bytes) noexcept {}

  /// Bytes that acquire and map may hand out in total; they fail beyond it.
  virtual std::int64_t capacity() const = 0;
  /// Another capacity, no less than what is held.
  virtual void set_capacity(std::int64_t num_bytes) = 0;
  /// Bytes handed out now.
  virtual std::int64_t held() const = 0;
};

}  // namespace trainer
