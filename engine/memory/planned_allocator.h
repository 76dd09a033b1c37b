#pragma once

#include <cstdint>

#include "engine/memory/allocator.h"
#include "engine/memory/memory_source.h"
#include "engine/memory/planned_segment.h"

namespace trainer {

/// One planned segment, and nothing else.
///
/// - The segment is acquired whole with the first block, and given back by release_cached where nothing is live. So
///   reserved is the segment or nothing.
/// - Where the source has no room for the segment: num_ooms and OutOfMemory, and nothing else changes. Nothing is
///   cached then that could be given back, so num_alloc_retries stays 0.
///
/// Statistics are those of Note [Allocated and reserved] in caching_allocator.h, all in the large pool.
class PlannedAllocator final : public Allocator {
 public:
  /// The source must outlive the allocator. `segment_bytes` is rounded up to 512.
  PlannedAllocator(MemorySource& source, std::int64_t segment_bytes);
  PlannedAllocator(const PlannedAllocator&) = delete;
  PlannedAllocator& operator=(const PlannedAllocator&) = delete;

  /// Throws InternalError: only planned blocks have a place.
  Block allocate(std::int64_t num_bytes) override;
  Block allocate_at(std::int64_t num_bytes, std::int64_t offset) override;
  void free(const Block& block) noexcept override { segment_.free(block); }
  void begin_layout() override {}  ///< the segment stays
  void release_cached() noexcept override { segment_.release(); }

  const MemoryStatistics& statistics() const override { return statistics_; }
  void reset_peaks() override { statistics_.reset_peaks(); }
  std::int64_t capacity() const override { return source_.capacity(); }
  std::int64_t largest_free_block() const override { return segment_.largest_free_block(); }
  std::uint64_t fingerprint() const override;
  MemorySnapshot snapshot() const override;

 private:
  MemorySource& source_;
  MemoryStatistics statistics_;
  PlannedSegment segment_;
};

}  // namespace trainer
