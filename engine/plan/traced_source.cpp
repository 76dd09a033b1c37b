#include "engine/plan/traced_source.h"

namespace trainer {

void* TracedSource::acquire(std::int64_t num_bytes) {
  void* const address = source_.acquire(num_bytes);
  if (address != nullptr) take(MemoryAction::Kind::acquire, address, num_bytes);
  return address;
}

void TracedSource::release(void* address, std::int64_t num_bytes) noexcept {
  source_.release(address, num_bytes);
  give_back(MemoryAction::Kind::give_back, address, num_bytes);
}

bool TracedSource::map(void* address, std::int64_t num_bytes) {
  if (!source_.map(address, num_bytes)) return false;
  take(MemoryAction::Kind::map, address, num_bytes);
  return true;
}

void TracedSource::unmap(void* address, std::int64_t num_bytes) noexcept {
  source_.unmap(address, num_bytes);
  give_back(MemoryAction::Kind::unmap, address, num_bytes);
}

std::vector<MemoryAction> TracedSource::held_segments() const {
  std::vector<MemoryAction> segments;
  for (const auto& [address, action] : held_) segments.push_back(action);
  return segments;
}

void TracedSource::take(MemoryAction::Kind kind, const void* address, std::int64_t num_bytes) {
  const MemoryAction action{.kind = kind, .address = reinterpret_cast<std::uint64_t>(address), .num_bytes = num_bytes};
  held_.emplace(action.address, action);
  if (actions_ != nullptr) actions_->push_back(action);
}

void TracedSource::give_back(MemoryAction::Kind kind, const void* address, std::int64_t num_bytes) {
  const MemoryAction action{.kind = kind, .address = reinterpret_cast<std::uint64_t>(address), .num_bytes = num_bytes};
  held_.erase(action.address);
  if (actions_ != nullptr) actions_->push_back(action);
}

}  // namespace trainer
