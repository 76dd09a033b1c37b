#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace trainer {

/// One counter as PyTorch keeps it: value now, highest since reset_peaks, and totals since the start.
struct Counter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  ///< sum of all increases
  std::int64_t freed = 0;      ///< sum of all decreases

  void increase(std::int64_t amount) {
    current += amount;
    allocated += amount;
    if (current > peak) peak = current;
  }
  void decrease(std::int64_t amount) {
    current -= amount;
    freed += amount;
  }
  friend bool operator==(const Counter&, const Counter&) = default;
};

/// A counter for all memory and for the two pools.
struct PooledCounter {
  Counter all, small_pool, large_pool;
  friend bool operator==(const PooledCounter&, const PooledCounter&) = default;
};

/// Everything PyTorch's memory_stats() tells, under the same names. See Note [Allocated and reserved] in
/// engine/memory/caching_allocator.h.
struct MemoryStatistics {
  PooledCounter allocation;       ///< live blocks, count
  PooledCounter segment;          ///< segments held from the source, count
  PooledCounter active;           ///< blocks in use, count
  PooledCounter inactive_split;   ///< free blocks of partly used segments, count
  PooledCounter requested_bytes;  ///< bytes asked for by live blocks
  PooledCounter allocated_bytes;  ///< bytes occupied by live blocks
  PooledCounter reserved_bytes;   ///< bytes of segments
  PooledCounter active_bytes;
  PooledCounter inactive_split_bytes;
  std::int64_t num_alloc_retries = 0;  ///< times the cache was given back to serve a request
  std::int64_t num_ooms = 0;
};

struct BlockSnapshot {
  std::int64_t offset = 0;  ///< from the start of the segment
  std::int64_t size = 0;
  std::int64_t requested = 0;  ///< 0 where free
  std::int32_t id = -1;        ///< of the live block; -1 where free
};

struct SegmentSnapshot {
  std::uint64_t address = 0;
  std::int64_t size = 0;
  bool small_pool = false;
  std::vector<BlockSnapshot> blocks;  ///< in order, without gaps
};

struct MemorySnapshot {
  std::vector<SegmentSnapshot> segments;  ///< in the order they were acquired
};

}  // namespace trainer
