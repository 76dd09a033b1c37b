#include "engine/memory/simulated_source.h"

#include "engine/errors.h"

namespace trainer {

namespace {
constexpr std::uintptr_t alignment = std::uintptr_t{2} << 20;
}

SimulatedSource::SimulatedSource(std::int64_t capacity) : capacity_(capacity), next_address_(alignment) {
  require_internal(capacity >= 0, "a capacity is not negative");
}

void* SimulatedSource::acquire(std::int64_t num_bytes) {
  require_internal(num_bytes > 0, "a segment has at least one byte");
  if (num_bytes > capacity_ - held_) return nullptr;
  held_ += num_bytes;
  return next_addresses(num_bytes);
}

void SimulatedSource::release(void*, std::int64_t num_bytes) noexcept { held_ -= num_bytes; }

std::int64_t SimulatedSource::granule_bytes() const { return static_cast<std::int64_t>(alignment); }

void* SimulatedSource::reserve_range(std::int64_t num_bytes) {
  require_internal(num_bytes > 0, "a range has at least one byte");
  return next_addresses(num_bytes);
}

bool SimulatedSource::map(void*, std::int64_t num_bytes) {
  require_internal(num_bytes > 0 && num_bytes % granule_bytes() == 0, "whole granules are mapped");
  if (num_bytes > capacity_ - held_) return false;
  held_ += num_bytes;
  return true;
}

void SimulatedSource::unmap(void*, std::int64_t num_bytes) noexcept { held_ -= num_bytes; }

void* SimulatedSource::next_addresses(std::int64_t num_bytes) {
  const std::uintptr_t address = next_address_;
  next_address_ += (static_cast<std::uintptr_t>(num_bytes) + alignment - 1) / alignment * alignment;
  return reinterpret_cast<void*>(address);
}

}  // namespace trainer
