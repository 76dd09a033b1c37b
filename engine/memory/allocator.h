#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/errors.h"
#include "engine/memory/cached_segments.h"
#include "engine/memory/memory_statistics.h"

namespace trainer {

/// A live piece of device memory. `id` is stable while it lives and equal on every run of the same trace;
/// the address may be null in simulation.
struct Block {
  std::int32_t id = -1;
  void* address = nullptr;
  std::int64_t requested = 0;  ///< bytes asked for
  std::int64_t size = 0;       ///< bytes occupied: the request rounded to blocks (and an unsplittable rest)
};

/// What an allocator knew when it gave up; the report is made from it (engine/report/memory/out_of_memory_report.h).
struct AllocationFailure {
  std::int64_t requested = 0;
  std::int64_t rounded = 0;        ///< the request in whole blocks
  std::int64_t segment_bytes = 0;  ///< the segment (or the missing pages of one) that was asked of the source
  std::int64_t capacity = 0;
  MemoryStatistics statistics;
  std::int64_t largest_free_block = 0;  ///< among cached blocks
};

/// Raised only where an allocation failed after everything cached had been given back. The allocator is unchanged
/// but for its released cache, and can be used on.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const AllocationFailure& failure);
  const AllocationFailure& failure() const noexcept { return failure_; }

 private:
  AllocationFailure failure_;
};

/// Hands out blocks of segments it holds from a MemorySource. Not thread-safe: one per device and stream.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// A block of at least `num_bytes` (> 0; 0 is served as one block). Throws OutOfMemory.
  virtual Block allocate(std::int64_t num_bytes) = 0;
  /// A block at `offset` of the one segment that was planned beforehand, where nothing live may be. Throws OutOfMemory
  /// where the source has no room for that segment, and InternalError in an allocator that plans no segment.
  virtual Block allocate_at(std::int64_t num_bytes, std::int64_t offset);
  /// Whether plan_segment may be called: an allocator of segments that may have a planned one beside them.
  virtual bool may_plan_segment() const { return false; }
  /// Gives the cache back and holds one segment of `num_bytes` for allocate_at, after an OutOfMemory, which then no
  /// longer counts as one; no work that uses what is free is left to do. True once; false where there is no room.
  virtual bool plan_segment(std::int64_t num_bytes);
  /// Returns a live block; it is cached, not given to the source.
  virtual void free(const Block& block) noexcept = 0;
  /// A layout begins: addresses are handed out for work that is done later (Note [Layout before work] in
  /// engine/train/executor.h). What has been part of a block since then is not given back to the source by allocate(),
  /// up to the next layout. Where this is never called, everything free may be given back.
  virtual void begin_layout() = 0;
  /// Gives every wholly free segment back to the source ("empty cache"). No work that uses them is left to do.
  virtual void release_cached() noexcept = 0;

  virtual const MemoryStatistics& statistics() const = 0;
  /// Current values become the peaks (the start of a step).
  virtual void reset_peaks() = 0;
  virtual std::int64_t capacity() const = 0;
  /// Largest cached block: the largest request served without a new segment, or room in a planned one.
  virtual std::int64_t largest_free_block() const = 0;
  /// Two allocators with equal fingerprints behave alike from here on: covers the layout of all segments and blocks.
  virtual std::uint64_t fingerprint() const = 0;
  virtual MemorySnapshot snapshot() const = 0;

  /// Another allocator over the same source, with counters that begin anew, which takes over what is cached here; a
  /// planned segment is given back. Nothing is live; this one holds nothing any more. Null, and nothing changed, of an
  /// allocator whose segments serve no other.
  virtual std::unique_ptr<Allocator> hand_on() { return nullptr; }
  /// What hand_on() would hand on, where nothing is live.
  virtual CachedSegments cached() const { return {}; }
};

}  // namespace trainer
