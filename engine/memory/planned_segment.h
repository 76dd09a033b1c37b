#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory/allocator.h"
#include "engine/memory/fingerprint.h"
#include "engine/memory/memory_source.h"

namespace trainer {

/// One segment whose blocks lie where a plan made beforehand says (engine/program/placement.h), so nothing is searched
/// and nothing is fragmented: the whole of the planned allocator, and a part of the caching one (Note [Placed layouts]
/// in engine/plan/placed_layouts.h).
///
/// A block is its request rounded up to 512 B. Throws InternalError for a block that overlaps a live one, or that
/// reaches beyond the segment: the plan is wrong then. Deterministic: the same calls give the same ids. Ids are reused,
/// last freed first. place and free do not touch the system heap unless the number of live blocks reaches a new high.
class PlannedSegment {
 public:
  /// Source and statistics must outlive it. `segment_bytes` (> 0) is rounded up to 512; ids begin at `first_id`.
  PlannedSegment(MemorySource& source, std::int64_t segment_bytes, MemoryStatistics& statistics,
                 std::int32_t first_id = 0);
  /// Gives the segment back, also with live blocks.
  ~PlannedSegment();
  PlannedSegment(const PlannedSegment&) = delete;
  PlannedSegment& operator=(const PlannedSegment&) = delete;

  std::int64_t num_bytes() const { return segment_bytes_; }
  bool is_held() const { return address_ != nullptr; }
  /// False, and nothing changed, where the source has no room for it.
  bool acquire();
  /// Gives it back, unless something is live.
  void release() noexcept;

  /// A block at `offset`, where nothing live may be; acquire() must have been true.
  Block place(std::int64_t num_bytes, std::int64_t offset);
  void free(const Block& block) noexcept;

  std::int64_t largest_free_block() const;
  void mix_into(Fingerprint& fingerprint) const;
  void add_to(MemorySnapshot& snapshot) const;

 private:
  struct LiveBlock {
    std::int64_t offset = 0, size = 0, requested = 0;
    std::int32_t id = -1;
  };

  std::size_t position_of(std::int64_t offset) const;
  std::int64_t end_before(std::size_t position) const;
  std::int64_t begin_after(std::size_t position) const;
  void grow_ids();

  MemorySource& source_;
  const std::int64_t segment_bytes_;
  MemoryStatistics& statistics_;
  void* address_ = nullptr;             ///< null: not held
  std::vector<LiveBlock> live_;         ///< by offset
  std::vector<std::int32_t> free_ids_;  ///< the next one last
  std::int32_t next_id_;                ///< above all that were given out
};

}  // namespace trainer
