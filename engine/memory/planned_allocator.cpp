#include "engine/memory/planned_allocator.h"

#include <algorithm>

#include "engine/memory/rounding.h"

namespace trainer {

PlannedAllocator::PlannedAllocator(MemorySource& source, std::int64_t segment_bytes)
    : source_(source), segment_(source, segment_bytes, statistics_) {}

Block PlannedAllocator::allocate(std::int64_t) {
  throw InternalError("internal error: a block of a planned segment has a place");
}

Block PlannedAllocator::allocate_at(std::int64_t num_bytes, std::int64_t offset) {
  if (segment_.acquire()) return segment_.place(num_bytes, offset);
  ++statistics_.num_ooms;
  AllocationFailure failure;
  failure.requested = num_bytes;
  failure.rounded = round_to_blocks(num_bytes);
  failure.segment_bytes = segment_.num_bytes();
  failure.capacity = capacity();
  failure.statistics = statistics_;
  throw OutOfMemory(failure);
}

std::uint64_t PlannedAllocator::fingerprint() const {
  Fingerprint fingerprint(0);
  segment_.mix_into(fingerprint);
  return fingerprint.value();
}

MemorySnapshot PlannedAllocator::snapshot() const {
  MemorySnapshot result;
  segment_.add_to(result);
  return result;
}

}  // namespace trainer
