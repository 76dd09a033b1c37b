#pragma once

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/memory/allocator.h"

namespace trainer::test {

/// Checks that every counter of an allocator is the sum over the blocks that its snapshot shows.
inline void check_counters_are_sums(const Allocator& allocator) {
  std::int64_t reserved = 0, allocated = 0, requested = 0, num_live = 0, largest = 0, num_split = 0, split_bytes = 0;
  const MemorySnapshot snapshot = allocator.snapshot();
  for (const SegmentSnapshot& segment : snapshot.segments) {
    std::int64_t end = 0;
    const bool has_live = std::any_of(segment.blocks.begin(), segment.blocks.end(),
                                      [](const BlockSnapshot& block) { return block.id >= 0; });
    for (const BlockSnapshot& block : segment.blocks) {
      CHECK(block.offset == end);
      end += block.size;
      if (block.id >= 0) {
        ++num_live;
        allocated += block.size;
        requested += block.requested;
        continue;
      }
      largest = std::max(largest, block.size);
      num_split += has_live ? 1 : 0;
      split_bytes += has_live ? block.size : 0;
    }
    CHECK(end == segment.size);
    reserved += end;
  }
  const MemoryStatistics& statistics = allocator.statistics();
  CHECK(statistics.segment.all.current == static_cast<std::int64_t>(snapshot.segments.size()));
  CHECK(statistics.reserved_bytes.all.current == reserved);
  CHECK(statistics.allocation.all.current == num_live);
  CHECK(statistics.active.all.current == num_live);
  CHECK(statistics.allocated_bytes.all.current == allocated);
  CHECK(statistics.active_bytes.all.current == allocated);
  CHECK(statistics.requested_bytes.all.current == requested);
  CHECK(statistics.inactive_split.all.current == num_split);
  CHECK(statistics.inactive_split_bytes.all.current == split_bytes);
  CHECK(allocator.largest_free_block() == largest);
}

}  // namespace trainer::test
