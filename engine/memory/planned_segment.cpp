#include "engine/memory/planned_segment.h"

#include <algorithm>

#include "engine/memory/rounding.h"

namespace trainer {

namespace {

void change(PooledCounter& counter, std::int64_t amount) {
  for (Counter* part : {&counter.all, &counter.large_pool}) {
    if (amount > 0) part->increase(amount);
    if (amount < 0) part->decrease(-amount);
  }
}

}  // namespace

PlannedSegment::PlannedSegment(MemorySource& source, std::int64_t segment_bytes, MemoryStatistics& statistics,
                               std::int32_t first_id)
    : source_(source), segment_bytes_(round_to_blocks(segment_bytes)), statistics_(statistics), next_id_(first_id) {
  require_internal(segment_bytes > 0, "a planned segment has at least one byte");
  grow_ids();
}

PlannedSegment::~PlannedSegment() {
  if (is_held()) source_.release(address_, segment_bytes_);
}

bool PlannedSegment::acquire() {
  if (is_held()) return true;
  address_ = source_.acquire(segment_bytes_);
  if (!is_held()) return false;
  change(statistics_.segment, 1);
  change(statistics_.reserved_bytes, segment_bytes_);
  return true;
}

void PlannedSegment::release() noexcept {
  if (!is_held() || !live_.empty()) return;
  source_.release(address_, segment_bytes_);
  address_ = nullptr;
  change(statistics_.segment, -1);
  change(statistics_.reserved_bytes, -segment_bytes_);
}

Block PlannedSegment::place(std::int64_t num_bytes, std::int64_t offset) {
  require_internal(is_held(), "a segment is held when a block is put there");
  require_internal(num_bytes >= 0 && offset >= 0 && offset % least_block_bytes == 0, "places are whole blocks");
  const std::int64_t size = round_to_blocks(num_bytes);
  require_internal(size <= segment_bytes_ && offset <= segment_bytes_ - size, "a block lies within its segment");
  const std::size_t position = position_of(offset);
  const std::int64_t gap_begin = end_before(position), gap_end = begin_after(position);
  require_internal(gap_begin <= offset && offset + size <= gap_end, "a place is free when a block is put there");
  if (free_ids_.empty()) grow_ids();  // before anything changes, as it may throw

  const std::int32_t id = free_ids_.back();
  free_ids_.pop_back();
  const bool was_empty = live_.empty();
  live_.insert(live_.begin() + static_cast<std::ptrdiff_t>(position), {offset, size, num_bytes, id});
  const std::int64_t num_gaps = (offset > gap_begin ? 1 : 0) + (offset + size < gap_end ? 1 : 0);
  change(statistics_.allocation, 1);
  change(statistics_.active, 1);
  change(statistics_.requested_bytes, num_bytes);
  change(statistics_.allocated_bytes, size);
  change(statistics_.active_bytes, size);
  // What is free is a part of the segment only while something is live.
  change(statistics_.inactive_split, num_gaps - (was_empty ? 0 : 1));
  change(statistics_.inactive_split_bytes, was_empty ? segment_bytes_ - size : -size);
  return {id, static_cast<char*>(address_) + offset, num_bytes, size};
}

void PlannedSegment::free(const Block& block) noexcept {
  const std::int64_t offset = static_cast<char*>(block.address) - static_cast<char*>(address_);
  const std::size_t position = position_of(offset);
  require_internal(
      block.id >= 0 && position < live_.size() && live_[position].offset == offset && live_[position].id == block.id,
      "only live blocks are freed");
  const LiveBlock freed = live_[position];
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(position));
  free_ids_.push_back(freed.id);
  const std::int64_t num_gaps =
      (offset > end_before(position) ? 1 : 0) + (offset + freed.size < begin_after(position) ? 1 : 0);
  change(statistics_.allocation, -1);
  change(statistics_.active, -1);
  change(statistics_.requested_bytes, -freed.requested);
  change(statistics_.allocated_bytes, -freed.size);
  change(statistics_.active_bytes, -freed.size);
  change(statistics_.inactive_split, (live_.empty() ? 0 : 1) - num_gaps);
  change(statistics_.inactive_split_bytes, live_.empty() ? freed.size - segment_bytes_ : freed.size);
}

std::int64_t PlannedSegment::largest_free_block() const {
  if (!is_held()) return 0;
  std::int64_t largest = 0;
  for (std::size_t position = 0; position <= live_.size(); ++position)
    largest = std::max(largest, begin_after(position) - end_before(position));
  return largest;
}

void PlannedSegment::mix_into(Fingerprint& fingerprint) const {
  fingerprint.mix(is_held() ? segment_bytes_ : -segment_bytes_);
  for (const LiveBlock& block : live_) {
    fingerprint.mix(block.offset);
    fingerprint.mix(block.requested);
  }
}

void PlannedSegment::add_to(MemorySnapshot& snapshot) const {
  if (!is_held()) return;
  SegmentSnapshot& segment = snapshot.segments.emplace_back();
  segment.address = reinterpret_cast<std::uintptr_t>(address_);
  segment.size = segment_bytes_;
  for (std::size_t position = 0; position <= live_.size(); ++position) {
    const std::int64_t gap_begin = end_before(position), gap_end = begin_after(position);
    if (gap_begin < gap_end) segment.blocks.push_back({gap_begin, gap_end - gap_begin, 0, -1});
    if (position == live_.size()) break;
    const LiveBlock& block = live_[position];
    segment.blocks.push_back({block.offset, block.size, block.requested, block.id});
  }
}

/// Of the first live block at or behind an offset.
std::size_t PlannedSegment::position_of(std::int64_t offset) const {
  const auto found = std::lower_bound(live_.begin(), live_.end(), offset,
                                      [](const LiveBlock& block, std::int64_t value) { return block.offset < value; });
  return static_cast<std::size_t>(found - live_.begin());
}

/// Where the live block before `position` ends.
std::int64_t PlannedSegment::end_before(std::size_t position) const {
  return position == 0 ? 0 : live_[position - 1].offset + live_[position - 1].size;
}

/// Where the live block at `position` begins.
std::int64_t PlannedSegment::begin_after(std::size_t position) const {
  return position == live_.size() ? segment_bytes_ : live_[position].offset;
}

void PlannedSegment::grow_ids() {
  constexpr std::size_t initial_ids = 256;
  const std::size_t num_new = std::max(initial_ids, live_.size());
  // free must not throw, so both lists have room for every block.
  live_.reserve(live_.size() + num_new);
  free_ids_.reserve(live_.size() + num_new);
  for (std::size_t i = num_new; i-- > 0;) free_ids_.push_back(next_id_ + static_cast<std::int32_t>(i));
  next_id_ += static_cast<std::int32_t>(num_new);
}

}  // namespace trainer
