#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trainer {

/// One counter as PyTorch keeps it: value now, highest since reset_peaks, and totals since the start.
struct Counter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  // Modulo 2^64: a run may be planned that is longer than any machine runs, and differences stay right.
  std::int64_t allocated = 0;  ///< sum of all increases
  std::int64_t freed = 0;      ///< sum of all decreases

  void increase(std::int64_t amount) {
    current += amount;
    allocated = wrapped_sum(allocated, amount);
    if (current > peak) peak = current;
  }
  void decrease(std::int64_t amount) {
    current -= amount;
    freed = wrapped_sum(freed, amount);
  }
  friend bool operator==(const Counter&, const Counter&) = default;

 private:
  static std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
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

  /// Current values become the peaks.
  void reset_peaks();
  friend bool operator==(const MemoryStatistics&, const MemoryStatistics&) = default;
};

/// The counters by name, for whoever goes through all of them.
struct NamedCounter {
  std::string_view name;
  PooledCounter MemoryStatistics::*counter;
};
inline constexpr std::array<NamedCounter, 9> memory_counters = {{
    {"allocation", &MemoryStatistics::allocation},
    {"segment", &MemoryStatistics::segment},
    {"active", &MemoryStatistics::active},
    {"inactive_split", &MemoryStatistics::inactive_split},
    {"requested_bytes", &MemoryStatistics::requested_bytes},
    {"allocated_bytes", &MemoryStatistics::allocated_bytes},
    {"reserved_bytes", &MemoryStatistics::reserved_bytes},
    {"active_bytes", &MemoryStatistics::active_bytes},
    {"inactive_split_bytes", &MemoryStatistics::inactive_split_bytes},
}};

inline void MemoryStatistics::reset_peaks() {
  for (const NamedCounter& named : memory_counters) {
    PooledCounter& counter = this->*named.counter;
    for (Counter* part : {&counter.all, &counter.small_pool, &counter.large_pool}) part->peak = part->current;
  }
}

/// Share of the cached memory that one request cannot use: 1 - largest free block / (reserved - allocated),
/// in [0, 1). 0 where everything cached is one block, and where nothing is cached.
inline double fragmentation(const MemoryStatistics& statistics, std::int64_t largest_free_block) {
  const std::int64_t cached_bytes = statistics.reserved_bytes.all.current - statistics.allocated_bytes.all.current;
  if (cached_bytes <= 0) return 0.0;
  return 1.0 - static_cast<double>(largest_free_block) / static_cast<double>(cached_bytes);
}

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
  std::vector<SegmentSnapshot> segments;  ///< as acquired; a planned one last
};

}  // namespace trainer
