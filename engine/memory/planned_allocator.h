#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory/allocator.h"
#include "engine/memory/memory_source.h"

namespace trainer {

/// One segment whose blocks lie where a plan made beforehand says (engine/program/placement.h), so nothing is searched
/// and nothing is fragmented.
///
/// - The segment is acquired whole with the first block, and given back by release_cached where nothing is live. So
///   reserved is the segment or nothing.
/// - A block is its request rounded up to 512 B.
/// - Where the source has no room for the segment: num_ooms and OutOfMemory, and nothing else changes. Nothing is
///   cached then that could be given back, so num_alloc_retries stays 0.
///
/// Throws InternalError for a block that overlaps a live one, or that reaches beyond the segment: the plan is wrong
/// then. Deterministic: the same calls give the same ids. Ids are reused, last freed first. allocate_at and free do not
/// touch the system heap unless the number of live blocks reaches a new high.
///
/// Statistics are those of Note [Allocated and reserved] in caching_allocator.h, all in the large pool.
class PlannedAllocator final : public Allocator {
 public:
  /// The source must outlive the allocator. `segment_bytes` is rounded up to 512.
  PlannedAllocator(MemorySource& source, std::int64_t segment_bytes);
  /// Gives the segment back, also with live blocks.
  ~PlannedAllocator() override;
  PlannedAllocator(const PlannedAllocator&) = delete;
  PlannedAllocator& operator=(const PlannedAllocator&) = delete;

  /// Throws InternalError: only planned blocks have a place.
  Block allocate(std::int64_t num_bytes) override;
  Block allocate_at(std::int64_t num_bytes, std::int64_t offset) override;
  void free(const Block& block) noexcept override;
  void begin_layout() override {}  ///< the segment stays
  void release_cached() noexcept override;

  const MemoryStatistics& statistics() const override { return statistics_; }
  void reset_peaks() override;
  std::int64_t capacity() const override { return source_.capacity(); }
  std::int64_t largest_free_block() const override;
  std::uint64_t fingerprint() const override;
  MemorySnapshot snapshot() const override;

 private:
  struct LiveBlock {
    std::int64_t offset = 0, size = 0, requested = 0;
    std::int32_t id = -1;
  };

  std::size_t position_of(std::int64_t offset) const;
  std::int64_t end_before(std::size_t position) const;
  std::int64_t begin_after(std::size_t position) const;
  void acquire(std::int64_t num_bytes, std::int64_t rounded);
  void grow_ids();

  MemorySource& source_;
  const std::int64_t segment_bytes_;
  void* segment_ = nullptr;             ///< null: not held
  std::vector<LiveBlock> live_;         ///< by offset
  std::vector<std::int32_t> free_ids_;  ///< the next one last
  std::int32_t num_ids_ = 0;
  MemoryStatistics statistics_;
};

}  // namespace trainer
