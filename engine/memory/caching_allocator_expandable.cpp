// The caching allocator with expandable segments: see Note [Expandable segments] in engine/memory/caching_allocator.h.

#include <algorithm>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/rounding.h"

namespace trainer {

namespace {

constexpr std::int64_t small_page_bytes = std::int64_t{2} << 20;
constexpr std::int64_t large_page_bytes = std::int64_t{20} << 20;
constexpr std::int64_t highest_range_bytes = std::int64_t{1} << 62;

/// Pages are mapped and unmapped by a call each, so that a source may keep one handle for each of them.
void unmap_pages(MemorySource& source, std::uintptr_t address, std::int64_t num_bytes, std::int64_t page) noexcept {
  for (std::int64_t offset = 0; offset < num_bytes; offset += page)
    source.unmap(reinterpret_cast<void*>(address + static_cast<std::uintptr_t>(offset)), page);
}

/// All pages, or none and false (or what the source throws).
bool map_pages(MemorySource& source, std::uintptr_t address, std::int64_t num_bytes, std::int64_t page) {
  std::int64_t mapped = 0;
  try {
    while (mapped < num_bytes &&
           source.map(reinterpret_cast<void*>(address + static_cast<std::uintptr_t>(mapped)), page))
      mapped += page;
  } catch (...) {
    unmap_pages(source, address, mapped, page);
    throw;
  }
  if (mapped == num_bytes) return true;
  unmap_pages(source, address, mapped, page);
  return false;
}

}  // namespace

std::int64_t CachingAllocator::page_bytes(bool small) { return small ? small_page_bytes : large_page_bytes; }

/// What a free block could have without moving: its size and that of the unmapped pages behind it.
std::int64_t CachingAllocator::size_with_growth(const FreeBlock& block) const {
  const std::int32_t next = records_[block.record].next;
  return block.size + (next >= 0 && !records_[next].mapped ? records_[next].size : 0);
}

/// A free block, in no list, of at least `rounded` bytes on pages some of which were not mapped before.
std::int32_t CachingAllocator::acquire_pages(std::int64_t requested, std::int64_t rounded, bool small) {
  std::int64_t refused_bytes = 0;
  std::int32_t id = expand(rounded, small, refused_bytes);
  if (id < 0) {
    unmap_free_pages(false);
    ++statistics_.num_alloc_retries;
    id = expand(rounded, small, refused_bytes);
  }
  if (id < 0) fail(requested, rounded, refused_bytes);
  pool(small).erase(free_block(id));
  return id;
}

/// Maps what is missing at the lowest place with room; -1 where the source refuses.
std::int32_t CachingAllocator::expand(std::int64_t rounded, bool small, std::int64_t& refused_bytes) {
  std::int32_t id = find_room(rounded, small);
  if (id < 0) id = reserve_range(rounded, small);
  if (id < 0) {
    refused_bytes = round_up(rounded, page_bytes(small));
    return -1;
  }
  bool granted = false;
  try {
    granted = map_room(id, rounded, refused_bytes);
  } catch (...) {
    release_empty_ranges();
    throw;
  }
  if (granted) return id;
  release_empty_ranges();
  return -1;
}

/// The first block of the lowest room of at least `rounded` bytes: unmapped pages, with the free blocks between them
/// and right before; -1 where there is none.
std::int32_t CachingAllocator::find_room(std::int64_t rounded, bool small) const {
  for (const Segment& segment : segments_) {
    if (segment.small != small) continue;
    for (std::int32_t gap = segment.first; gap >= 0; gap = records_[gap].next) {
      if (records_[gap].mapped) continue;
      const std::int32_t previous = records_[gap].previous;
      const std::int32_t start = previous >= 0 && !records_[previous].live ? previous : gap;
      std::int64_t room = 0;
      for (std::int32_t id = start; id >= 0 && !records_[id].live && room < rounded; id = records_[id].next)
        room += records_[id].size;
      if (room >= rounded) return start;
    }
  }
  return -1;
}

/// A new range as one unmapped block; -1 where the source could never back `rounded` bytes.
std::int32_t CachingAllocator::reserve_range(std::int64_t rounded, bool small) {
  if (rounded > capacity()) return -1;
  // Before the source is asked, so that a range cannot be lost to a failing push_back.
  if (segments_.size() == segments_.capacity()) segments_.reserve(2 * segments_.size());
  const std::int64_t room = std::min(capacity(), highest_range_bytes - highest_range_bytes / 8);
  const std::int64_t size = round_up(room + room / 8, page_bytes(small));
  void* address = source_.reserve_range(size);
  const std::int32_t id = take_record();
  Record& record = records_[id];
  record = {};
  record.segment_address = reinterpret_cast<std::uintptr_t>(address);
  record.segment = next_segment_number_++;
  record.size = size;
  record.small = small;
  record.mapped = false;
  segments_.push_back({address, record.segment, size, id, small});
  return id;
}

/// Maps gaps until the block has `rounded` bytes. Where the source refuses, gaps that were filled before stay so, as
/// free blocks.
bool CachingAllocator::map_room(std::int32_t id, std::int64_t rounded, std::int64_t& refused_bytes) {
  if (!records_[id].mapped && !map_gap(id, std::min(records_[id].size, rounded), refused_bytes)) return false;
  while (records_[id].size < rounded) {
    const std::int32_t gap = records_[id].next;
    if (!map_gap(gap, std::min(records_[gap].size, rounded - records_[id].size), refused_bytes)) return false;
  }
  return true;
}

/// Maps the first pages of an unmapped block and merges them with the free blocks around.
bool CachingAllocator::map_gap(std::int32_t id, std::int64_t num_bytes, std::int64_t& refused_bytes) {
  const bool small = records_[id].small;
  const std::int64_t page = page_bytes(small);
  const std::int64_t mapped_bytes = round_up(num_bytes, page);
  if (!map_pages(source_, reinterpret_cast<std::uintptr_t>(records_[id].address()), mapped_bytes, page)) {
    refused_bytes = mapped_bytes;
    return false;
  }
  if (mapped_bytes < records_[id].size) split_off(id, mapped_bytes);
  records_[id].mapped = true;
  pool(small).insert(free_block(merge_with_neighbours(id).id));
  count_reserved(small, mapped_bytes);
  return true;
}

/// Of all free blocks, or of those that the present layout has not used.
void CachingAllocator::unmap_free_pages(bool all) noexcept {
  for (const Segment& segment : segments_) {
    for (std::int32_t id = segment.first; id >= 0; id = records_[id].next)
      if (records_[id].mapped && !records_[id].live && (all || may_release(records_[id]))) id = unmap_block(id);
  }
  release_empty_ranges();
}

/// Unmaps the pages that lie wholly in a free block; the last of the records that it then consists of.
std::int32_t CachingAllocator::unmap_block(std::int32_t id) noexcept {
  const Record& block = records_[id];
  const bool small = block.small;
  const std::int64_t page = page_bytes(small);
  const std::int64_t begin = round_up(block.offset, page);
  const std::int64_t end = (block.offset + block.size) / page * page;
  if (begin >= end) return id;
  FreeBlocks& free_blocks = pool(small);
  free_blocks.erase(free_block(id));
  std::int32_t gap = id;
  if (begin > block.offset) {
    gap = split_off(id, begin - block.offset);
    free_blocks.insert(free_block(id));
  }
  std::int32_t last = -1;
  if (records_[gap].size > end - begin) {
    last = split_off(gap, end - begin);
    free_blocks.insert(free_block(last));
  }
  unmap_pages(source_, reinterpret_cast<std::uintptr_t>(records_[gap].address()), end - begin, page);
  records_[gap].mapped = false;
  gap = merge_with_neighbours(gap).id;
  count_reserved(small, begin - end);
  return last >= 0 ? last : gap;
}

void CachingAllocator::release_empty_ranges() noexcept {
  std::erase_if(segments_, [this](const Segment& segment) {
    const Record& first = records_[segment.first];
    if (first.mapped || first.next >= 0) return false;
    return_record(segment.first);
    source_.release_range(segment.address, segment.size);
    return true;
  });
}

/// Gives everything back, also live blocks.
void CachingAllocator::release_ranges() noexcept {
  for (const Segment& segment : segments_) {
    const std::int64_t page = page_bytes(segment.small);
    std::int64_t mapped_up_to = 0;
    for (std::int32_t id = segment.first; id >= 0; id = records_[id].next) {
      const Record& record = records_[id];
      if (!record.mapped) continue;
      // The page that a block begins in was unmapped with the block before it.
      const std::int64_t begin = std::max(mapped_up_to, record.offset / page * page);
      const std::int64_t end = round_up(record.offset + record.size, page);
      if (begin < end) {
        const auto address = reinterpret_cast<std::uintptr_t>(segment.address) + static_cast<std::uintptr_t>(begin);
        unmap_pages(source_, address, end - begin, page);
      }
      mapped_up_to = std::max(mapped_up_to, end);
    }
    source_.release_range(segment.address, segment.size);
  }
}

}  // namespace trainer
