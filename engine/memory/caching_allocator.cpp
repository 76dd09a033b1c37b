#include "engine/memory/caching_allocator.h"

#include <algorithm>
#include <utility>

#include "engine/memory/fingerprint.h"
#include "engine/memory/rounding.h"

namespace trainer {

namespace {

// The constants of PyTorch's allocator, under their names there.
constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t min_block_bytes = 512;             // kMinBlockSize
constexpr std::int64_t small_bytes = mib;                 // kSmallSize
constexpr std::int64_t small_buffer_bytes = 2 * mib;      // kSmallBuffer
constexpr std::int64_t large_buffer_bytes = 20 * mib;     // kLargeBuffer
constexpr std::int64_t min_large_alloc_bytes = 10 * mib;  // kMinLargeAlloc
constexpr std::int64_t round_large_bytes = 2 * mib;       // kRoundLarge

constexpr std::size_t initial_records = 256;

/// Ids of the planned segment's blocks are above those of all others.
constexpr std::int32_t first_planned_id = 1 << 30;

std::int64_t segment_bytes_for(std::int64_t rounded) {
  if (rounded <= small_bytes) return small_buffer_bytes;
  if (rounded < min_large_alloc_bytes) return large_buffer_bytes;
  return round_up(rounded, round_large_bytes);
}

void increase(PooledCounter& counter, bool small, std::int64_t amount) {
  counter.all.increase(amount);
  (small ? counter.small_pool : counter.large_pool).increase(amount);
}

void decrease(PooledCounter& counter, bool small, std::int64_t amount) {
  counter.all.decrease(amount);
  (small ? counter.small_pool : counter.large_pool).decrease(amount);
}

void change(PooledCounter& counter, bool small, std::int64_t amount) {
  if (amount > 0) increase(counter, small, amount);
  if (amount < 0) decrease(counter, small, -amount);
}

}  // namespace

CachingAllocator::CachingAllocator(MemorySource& source, const CachingAllocatorOptions& options)
    : source_(source), options_(options) {
  require_internal(options.max_split_bytes > large_buffer_bytes, "max_split_bytes is above 20 MiB");
  if (options.expandable_segments) {
    require_internal(options.max_split_bytes == std::numeric_limits<std::int64_t>::max(),
                     "expandable segments are split everywhere");
    require_internal(!options.may_plan_segment, "no segment is planned beside expandable ones");
    if (source.granule_bytes() == 0)
      throw DeviceError("this device cannot map memory piece by piece, as memory.expandable_segments: true asks for");
    require_internal(small_buffer_bytes % source.granule_bytes() == 0, "a page is whole granules of the source");
  }
  grow_records();
  segments_.reserve(64);
  if (options_.begins_with) begin_with(*options_.begins_with);
}

CachingAllocator::~CachingAllocator() {
  if (options_.expandable_segments)
    release_ranges();
  else
    for (const Segment& segment : segments_) source_.release(segment.address, segment.size);
}

Block CachingAllocator::allocate(std::int64_t num_bytes) {
  require_internal(num_bytes >= 0, "an allocation has at least 0 bytes");
  // Made here, before anything changes, as it may throw.
  while (lacks_records()) grow_records();
  const std::int64_t rounded = round_up(std::max(num_bytes, min_block_bytes), min_block_bytes);
  const bool small = rounded <= small_bytes;
  std::int32_t id = take_free_block(rounded, small);
  if (id < 0)
    id = options_.expandable_segments ? acquire_pages(num_bytes, rounded, small)
                                      : acquire_segment(num_bytes, rounded, small);
  return occupy(id, num_bytes, rounded);
}

Block CachingAllocator::allocate_at(std::int64_t num_bytes, std::int64_t offset) {
  require_internal(planned_ != nullptr, "a segment is planned before blocks are placed in it");
  if (!planned_->acquire()) {  // it went with the cache
    release_unused();
    ++statistics_.num_alloc_retries;
    if (!planned_->acquire()) fail(num_bytes, round_to_blocks(num_bytes), planned_->num_bytes());
  }
  return planned_->place(num_bytes, offset);
}

bool CachingAllocator::plan_segment(std::int64_t num_bytes) {
  require_internal(may_plan_segment(), "one segment is planned, where the options say so");
  auto planned = std::make_unique<PlannedSegment>(source_, num_bytes, statistics_, first_planned_id);
  release_cached();
  if (!planned->acquire()) return false;
  planned_ = std::move(planned);
  --statistics_.num_ooms;
  return true;
}

void CachingAllocator::free(const Block& block) noexcept {
  if (block.id >= first_planned_id) return planned_->free(block);
  require_internal(is_live(block), "only live blocks are freed");
  Record& freed = records_[block.id];
  const bool small = freed.small;
  freed.live = false;
  freed.layout = layout_;
  decrease(statistics_.allocation, small, 1);
  decrease(statistics_.allocated_bytes, small, freed.size);
  decrease(statistics_.active, small, 1);
  decrease(statistics_.active_bytes, small, freed.size);
  decrease(statistics_.requested_bytes, small, freed.requested);
  freed.requested = 0;

  const Merged merged = merge_with_neighbours(block.id);
  pool(small).insert(free_block(merged.id));
  if (options_.expandable_segments) return;
  const Record& result = records_[merged.id];
  change(statistics_.inactive_split, small, (result.is_split() ? 1 : 0) - merged.num_absorbed);
  change(statistics_.inactive_split_bytes, small, (result.is_split() ? result.size : 0) - merged.absorbed_bytes);
}

void CachingAllocator::release_cached() noexcept {
  if (planned_) planned_->release();
  if (options_.expandable_segments) return unmap_free_pages(true);
  const std::int64_t layout = std::exchange(layout_, 0);
  release_unused();
  layout_ = layout;
}

/// Every segment without a live block that the present layout has not used.
void CachingAllocator::release_unused() noexcept {
  auto kept = segments_.begin();
  for (const Segment& segment : segments_) {
    if (wholly_free(segment) && may_release(records_[segment.first]))
      release_segment(segment);
    else
      *kept++ = segment;
  }
  segments_.erase(kept, segments_.end());
}

std::int64_t CachingAllocator::largest_free_block() const {
  std::int64_t largest = 0;
  for (const FreeBlocks* blocks : {&small_free_, &large_free_})
    if (!blocks->empty()) largest = std::max(largest, (*blocks)[blocks->size() - 1].size);
  return planned_ ? std::max(largest, planned_->largest_free_block()) : largest;
}

std::uint64_t CachingAllocator::fingerprint() const {
  Fingerprint fingerprint(segments_.size());
  for (const Segment& segment : segments_) {
    fingerprint.mix(segment.size * 2 + (segment.small ? 1 : 0));
    for (std::int32_t id = segment.first; id >= 0; id = records_[id].next) {
      const Record& record = records_[id];
      fingerprint.mix(record.size);
      fingerprint.mix(record.live ? record.requested : record.mapped ? -1 : -2);
    }
  }
  if (planned_) planned_->mix_into(fingerprint);
  return fingerprint.value();
}

MemorySnapshot CachingAllocator::snapshot() const {
  MemorySnapshot result;
  result.segments.reserve(segments_.size());
  for (const Segment& segment : segments_) {
    bool continues = false;  // an expandable segment is told of as its mapped parts
    for (std::int32_t id = segment.first; id >= 0; id = records_[id].next) {
      const Record& record = records_[id];
      if (record.mapped) {
        if (!continues) {
          SegmentSnapshot& part = result.segments.emplace_back();
          part.address = reinterpret_cast<std::uintptr_t>(record.address());
          part.small_pool = segment.small;
        }
        SegmentSnapshot& part = result.segments.back();
        part.blocks.push_back({part.size, record.size, record.requested, record.live ? id : -1});
        part.size += record.size;
      }
      continues = record.mapped;
    }
  }
  if (planned_) planned_->add_to(result);
  return result;
}

bool CachingAllocator::is_live(const Block& block) const {
  if (block.id < 0 || static_cast<std::size_t>(block.id) >= records_.size()) return false;
  const Record& record = records_[block.id];
  return record.live && record.address() == block.address;
}

FreeBlock CachingAllocator::free_block(std::int32_t id) const {
  const Record& record = records_[id];
  return {record.size, record.segment, record.offset, id};
}

std::int32_t CachingAllocator::take_record() {
  const std::int32_t id = unused_;
  unused_ = records_[id].next;
  --num_unused_;
  return id;
}

void CachingAllocator::return_record(std::int32_t id) {
  records_[id] = {};
  records_[id].next = unused_;
  unused_ = id;
  ++num_unused_;
}

bool CachingAllocator::lacks_records() const {
  // Allocating takes at most three (a range, the rest of its pages, the rest of a split) and may give the cache back,
  // which must not fail and takes two for each block whose inner pages it unmaps.
  if (!options_.expandable_segments) return num_unused_ < 2;
  const std::int64_t num_used = static_cast<std::int64_t>(records_.size()) - num_unused_;
  return num_unused_ < 2 * num_used + 8;
}

void CachingAllocator::grow_records() {
  const std::size_t num_records = records_.empty() ? initial_records : 2 * records_.size();
  require_internal(num_records <= static_cast<std::size_t>(first_planned_id), "fewer than 2^30 blocks are held");
  // free must not throw, so each list has room for every record.
  small_free_.reserve(num_records);
  large_free_.reserve(num_records);
  const auto old_size = static_cast<std::int32_t>(records_.size());
  records_.resize(num_records);
  for (auto id = static_cast<std::int32_t>(num_records) - 1; id >= old_size; --id) return_record(id);
}

/// Makes the part of a block behind its first `size` bytes a record of its own, and answers that.
std::int32_t CachingAllocator::split_off(std::int32_t id, std::int64_t size) {
  const std::int32_t rest_id = take_record();
  Record& block = records_[id];
  Record& rest = records_[rest_id];
  rest = block;
  rest.offset += size;
  rest.size -= size;
  rest.previous = id;
  if (rest.next >= 0) records_[rest.next].previous = rest_id;
  block.next = rest_id;
  block.size = size;
  return rest_id;
}

/// Merges a block that is in no list with the neighbours that are as it is: free, or unmapped.
CachingAllocator::Merged CachingAllocator::merge_with_neighbours(std::int32_t id) {
  Merged merged{.id = id};
  const auto merges = [&](std::int32_t neighbour) {
    return neighbour >= 0 && !records_[neighbour].live && records_[neighbour].mapped == records_[id].mapped;
  };
  const auto take_out = [&](std::int32_t neighbour) {
    const Record& record = records_[neighbour];
    if (record.mapped) pool(record.small).erase(free_block(neighbour));
    merged.num_absorbed += 1;
    merged.absorbed_bytes += record.size;
  };
  const auto absorb_next = [&](std::int32_t lower_id) {
    Record& lower = records_[lower_id];
    const std::int32_t upper_id = lower.next;
    const Record& upper = records_[upper_id];
    lower.size += upper.size;
    lower.layout = std::max(lower.layout, upper.layout);
    lower.next = upper.next;
    if (upper.next >= 0) records_[upper.next].previous = lower_id;
    return_record(upper_id);
  };
  if (const std::int32_t next = records_[id].next; merges(next)) {
    take_out(next);
    absorb_next(id);
  }
  if (const std::int32_t previous = records_[id].previous; merges(previous)) {
    take_out(previous);
    absorb_next(previous);
    merged.id = previous;
  }
  return merged;
}

std::int32_t CachingAllocator::take_free_block(std::int64_t rounded, bool small) {
  FreeBlocks& free_blocks = pool(small);
  std::size_t position = free_blocks.best_fit(rounded);
  if (position == free_blocks.size()) return -1;
  if (options_.expandable_segments) {
    while (position + 1 < free_blocks.size() &&
           size_with_growth(free_blocks[position + 1]) < size_with_growth(free_blocks[position]))
      ++position;
  }
  const FreeBlock found = free_blocks[position];
  const std::int64_t limit = options_.max_split_bytes;
  if (rounded < limit && found.size >= limit) return -1;
  if (rounded >= limit && found.size - rounded >= large_buffer_bytes) return -1;
  free_blocks.erase_at(position);
  return found.record;
}

std::int32_t CachingAllocator::acquire_segment(std::int64_t requested, std::int64_t rounded, bool small) {
  // Before the source is asked, so that a segment cannot be lost to a failing push_back.
  if (segments_.size() == segments_.capacity()) segments_.reserve(2 * segments_.size());
  const std::int64_t size = segment_bytes_for(rounded);
  void* address = source_.acquire(size);
  if (address == nullptr && release_oversize(rounded)) address = source_.acquire(size);
  if (address == nullptr) {
    release_unused();
    ++statistics_.num_alloc_retries;
    address = source_.acquire(size);
  }
  if (address == nullptr) fail(requested, rounded, size);

  const std::int32_t id = take_record();
  Record& record = records_[id];
  record = {};
  record.segment_address = reinterpret_cast<std::uintptr_t>(address);
  record.segment = next_segment_number_++;
  record.size = size;
  record.small = small;
  segments_.push_back({address, record.segment, size, id, small});
  increase(statistics_.segment, small, 1);
  count_reserved(small, size);
  return id;
}

Block CachingAllocator::occupy(std::int32_t id, std::int64_t requested, std::int64_t rounded) {
  Record& record = records_[id];
  const bool small = record.small;
  const bool was_split = record.is_split();
  const std::int64_t rest_bytes = record.size - rounded;
  const bool splits_fully = small || options_.expandable_segments;
  const bool split =
      splits_fully ? rest_bytes >= min_block_bytes : rest_bytes > small_bytes && rounded < options_.max_split_bytes;
  if (split) pool(small).insert(free_block(split_off(id, rounded)));
  if (!options_.expandable_segments && (split || was_split)) {
    change(statistics_.inactive_split, small, (split ? 1 : 0) - (was_split ? 1 : 0));
    change(statistics_.inactive_split_bytes, small, (split ? rest_bytes : 0) - (was_split ? rest_bytes + rounded : 0));
  }
  record.live = true;
  record.layout = layout_;
  record.requested = requested;
  increase(statistics_.allocation, small, 1);
  increase(statistics_.allocated_bytes, small, record.size);
  increase(statistics_.active, small, 1);
  increase(statistics_.active_bytes, small, record.size);
  increase(statistics_.requested_bytes, small, requested);
  return {id, record.address(), requested, record.size};
}

bool CachingAllocator::release_oversize(std::int64_t rounded) noexcept {
  const std::int64_t limit = options_.max_split_bytes;
  if (limit == std::numeric_limits<std::int64_t>::max()) return false;
  require_internal(layout_ == 0, "layouts are not made with max_split_bytes");
  // An oversize block is never a part: parts come from requests below the limit, and are smaller than these.
  const auto release_at = [this](std::size_t position) {
    const std::int64_t number = large_free_[position].segment;
    const auto segment = std::find_if(segments_.begin(), segments_.end(),
                                      [number](const Segment& candidate) { return candidate.number == number; });
    release_segment(*segment);
    segments_.erase(segment);
  };
  const std::int64_t wanted = std::max(rounded, limit);
  const std::size_t sufficient = large_free_.best_fit(wanted);
  if (sufficient < large_free_.size()) {
    release_at(sufficient);
    return true;
  }
  std::int64_t released = 0;
  while (released < wanted && !large_free_.empty()) {
    const std::size_t largest = large_free_.size() - 1;
    const std::int64_t size = large_free_[largest].size;
    if (size < limit) break;
    release_at(largest);
    released += size;
  }
  return released >= wanted;
}

bool CachingAllocator::wholly_free(const Segment& segment) const {
  const Record& first = records_[segment.first];
  return !first.live && first.next < 0;
}

void CachingAllocator::release_segment(const Segment& segment) noexcept {
  pool(segment.small).erase(free_block(segment.first));
  return_record(segment.first);
  decrease(statistics_.segment, segment.small, 1);
  count_reserved(segment.small, -segment.size);
  source_.release(segment.address, segment.size);
}

/// Counts bytes that the source gave, or took back where negative.
void CachingAllocator::count_reserved(bool small, std::int64_t num_bytes) {
  change(statistics_.reserved_bytes, small, num_bytes);
}

void CachingAllocator::fail(std::int64_t requested, std::int64_t rounded, std::int64_t segment_bytes) {
  ++statistics_.num_ooms;
  AllocationFailure failure;
  failure.requested = requested;
  failure.rounded = rounded;
  failure.segment_bytes = segment_bytes;
  failure.capacity = capacity();
  failure.statistics = statistics_;
  failure.largest_free_block = largest_free_block();
  throw OutOfMemory(failure);
}

}  // namespace trainer
