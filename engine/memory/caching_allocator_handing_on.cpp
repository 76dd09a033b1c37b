// What the caching allocator begins with: see Note [Cached segments] in engine/memory/caching_allocator.h.

#include <algorithm>

#include "engine/memory/caching_allocator.h"

namespace trainer {

std::unique_ptr<Allocator> CachingAllocator::hand_on() {
  require_internal(statistics_.allocation.all.current == 0, "what is handed on is not live");
  if (planned_) planned_->release();
  CachingAllocatorOptions options = options_;
  options.begins_with = nullptr;
  auto next = std::make_unique<CachingAllocator>(source_, options);
  // Nothing is to fail once both hold the same segments.
  const CachedSegments all = cached();
  next->segments_.reserve(segments_.size());
  const std::size_t num_used = records_.size() - static_cast<std::size_t>(num_unused_);
  while (next->records_.size() < 3 * num_used + 8) next->grow_records();
  for (std::size_t i = 0; i < segments_.size(); ++i) next->take_over(all.segments[i], segments_[i].address);
  next->reset_peaks();
  forget_segments();
  return next;
}

CachedSegments CachingAllocator::cached() const {
  CachedSegments result;
  for (const Segment& segment : segments_) {
    CachedSegments::Segment& described = result.segments.emplace_back();
    described.num_bytes = segment.size;
    described.small_pool = segment.small;
    if (!options_.expandable_segments) continue;
    for (std::int32_t id = segment.first; id >= 0; id = records_[id].next)
      described.parts.push_back({records_[id].size, records_[id].mapped});
  }
  return result;
}

/// Acquires all of them, or nothing.
void CachingAllocator::begin_with(const CachedSegments& segments) {
  if (segments.num_bytes() > source_.capacity() - source_.held()) return;
  const auto is_held = [&](const CachedSegments::Segment& segment) { return acquire_alike(segment); };
  try {
    if (!std::all_of(segments.segments.begin(), segments.segments.end(), is_held)) release_cached();
  } catch (...) {
    release_cached();
    throw;
  }
  reset_peaks();
}

/// False where the source refuses; of an expandable segment a part may be held then.
bool CachingAllocator::acquire_alike(const CachedSegments::Segment& segment) {
  require_internal(segment.parts.empty() != options_.expandable_segments, "segments of one kind serve no other");
  if (segments_.size() == segments_.capacity()) segments_.reserve(2 * segments_.size());
  if (!options_.expandable_segments) {
    void* const address = source_.acquire(segment.num_bytes);
    if (address != nullptr) take_over(segment, address);
    return address != nullptr;
  }
  void* const range = source_.reserve_range(segment.num_bytes);
  // Without memory first, so that what is mapped is known at any time.
  take_over({segment.num_bytes, segment.small_pool, {{segment.num_bytes, false}}}, range);
  std::int32_t id = segments_.back().first;
  for (const CachedSegments::Part& part : segment.parts) {
    std::int64_t refused_bytes = 0;
    while (lacks_records()) grow_records();
    if (part.is_mapped && !map_gap(id, part.num_bytes, refused_bytes)) return false;
    if (!part.is_mapped && part.num_bytes < records_[id].size) split_off(id, part.num_bytes);
    id = records_[id].next;
  }
  return true;
}

/// Of a segment that the source has given already.
void CachingAllocator::take_over(const CachedSegments::Segment& segment, void* address) {
  const bool small = segment.small_pool;
  const Segment& taken = segments_.emplace_back(
      Segment{.address = address, .number = next_segment_number_++, .size = segment.num_bytes, .small = small});
  const CachedSegments::Part whole{segment.num_bytes, true};
  const std::size_t num_parts = std::max<std::size_t>(segment.parts.size(), 1);
  std::int64_t offset = 0;
  std::int32_t previous = -1;
  for (std::size_t p = 0; p < num_parts; ++p) {
    const CachedSegments::Part& part = segment.parts.empty() ? whole : segment.parts[p];
    while (lacks_records()) grow_records();
    const std::int32_t id = take_record();
    Record& record = records_[id];
    record = {};
    record.segment_address = reinterpret_cast<std::uintptr_t>(address);
    record.segment = taken.number;
    record.offset = offset;
    record.size = part.num_bytes;
    record.small = small;
    record.mapped = part.is_mapped;
    record.previous = previous;
    if (previous >= 0)
      records_[previous].next = id;
    else
      segments_.back().first = id;
    if (part.is_mapped) {
      pool(small).insert(free_block(id));
      count_reserved(small, part.num_bytes);
    }
    offset += part.num_bytes;
    previous = id;
  }
  if (options_.expandable_segments) return;
  statistics_.segment.all.increase(1);
  (small ? statistics_.segment.small_pool : statistics_.segment.large_pool).increase(1);
}

/// They are another's now.
void CachingAllocator::forget_segments() {
  for (const Segment& segment : segments_) {
    for (std::int32_t id = segment.first, next = -1; id >= 0; id = next) {
      next = records_[id].next;
      if (records_[id].mapped) {
        pool(segment.small).erase(free_block(id));
        count_reserved(segment.small, -records_[id].size);
      }
      return_record(id);
    }
    if (options_.expandable_segments) continue;
    statistics_.segment.all.decrease(1);
    (segment.small ? statistics_.segment.small_pool : statistics_.segment.large_pool).decrease(1);
  }
  segments_.clear();
}

}  // namespace trainer
