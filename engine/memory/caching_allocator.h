#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "engine/memory/allocator.h"
#include "engine/memory/free_blocks.h"
#include "engine/memory/memory_source.h"
#include "engine/memory/planned_segment.h"

namespace trainer {

// Note [Allocated and reserved]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Asking a device for memory is slow (on CUDA it waits for everything that is running), so memory is asked for in
// large segments that are kept. Programs are served blocks of these segments, and a block that is freed stays in its
// segment, ready for the next request. One byte is therefore counted at up to four levels:
//
//   requested   what the program asked for: 1,000 floats are 4,000 bytes.
//   allocated   the blocks that serve those requests. A block is a multiple of 512 bytes, and may be up to 1 MiB larger
//               than the request where cutting off the rest would only leave a piece too small to be of use.
//   reserved    the segments held from the device: allocated + cached. A segment has 2 MiB (for blocks of up to 1 MiB),
//               20 MiB (up to 10 MiB), or the request rounded up to 2 MiB.
//   used        what the device counts for the whole process. It is larger than reserved by what lies outside the
//               allocator: the CUDA context, libraries' own buffers, and on the CPU the program itself.
//
// A run is out of memory when *reserved* would exceed the capacity, so reserved is what must fit, even though
// allocated says what the program really needs. Cached memory is not lost: before giving up, the allocator returns
// every segment without a live block and tries once more. What it cannot return are the free pieces of segments that
// also hold a live block (`inactive_split`). Much memory in many small pieces of that kind is fragmentation: there is
// enough in sum, but no single piece is large enough.
//
// `peak` values are the highest since the peaks were last reset, which happens at the start of each step. The peaks of
// allocated and reserved need not fall on the same moment: reserved falls only when the cache is given back.

// Note [Expandable segments]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Segments of fixed sizes leave pieces that later requests do not fit in. An expandable segment instead is a range of
// addresses, one for each pool and 1.125 times as large as the capacity, of which only the pages that are needed have
// memory behind them: 2 MiB each in the small pool, 20 MiB in the large one. What no free block can serve is placed
// where unmapped pages make the lowest room for it; the free block right before them, if there is one, is part of that
// room, so that only what is missing is mapped. Free blocks merge across pages. Giving the cache back unmaps every
// page that lies wholly in a free block, also between live ones; what is left of such a block are free pieces of pages
// that hold a live block too. A pool gets a second range only where the first has no room of the length that is wanted.
//
// Reserved counts the mapped pages. As in PyTorch, `segment` does not count expandable segments, and `inactive_split`
// and `inactive_split_bytes` leave their blocks out, since nearly all of a free block can be given back.

// Note [Cached segments]
// ~~~~~~~~~~~~~~~~~~~~~~
// What one allocator has cached may go on into another, once nothing of it is live: a stage of a run that is not purged
// (`purge: false`) begins so. hand_on() makes the other one over the same source: segments stay where they are, in the
// order in which they were acquired, each of them free, but ids, layouts and counters begin anew. A plan has no such
// source; it makes an allocator that acquires the same segments first (CachingAllocatorOptions::begins_with). Both then
// are the same but for addresses, which decide nothing, so that what follows is planned to the byte.
//
// The cache of an allocator may be more than another source gives. It goes back whole then, in a run before the
// capacity is set, in a plan before anything is asked for.

struct CachingAllocatorOptions {
  /// PyTorch's max_split_size: blocks of at least this size are never split, serve no smaller request, and serve a
  /// request of at least this size only if less than 20 MiB larger. Above 20 MiB; unlimited by default.
  std::int64_t max_split_bytes = std::numeric_limits<std::int64_t>::max();
  /// PyTorch's expandable_segments: see Note [Expandable segments]. Not together with max_split_bytes.
  bool expandable_segments = false;
  /// One segment may be planned beside the others: Note [Placed layouts] in engine/plan/placed_layouts.h. Not with
  /// expandable segments.
  bool may_plan_segment = false;
  /// What it acquires first, unless that is more than the source gives; null: nothing. See Note [Cached segments].
  std::shared_ptr<const CachedSegments> begins_with = nullptr;
};

/// PyTorch's native CUDA caching allocator, as of 2.x (c10/cuda/CUDACachingAllocator.cpp), for one stream:
///
/// - A request is rounded up to 512 B. Up to 1 MiB it belongs to the small pool, else to the large pool.
/// - It is served by the smallest free block of its pool that suffices; among equals by the one whose segment was
///   acquired first, then by the lowest offset. (PyTorch takes the lowest address; here addresses decide nothing.)
/// - Without such a block a segment is acquired: 2 MiB for the small pool; 20 MiB for less than 10 MiB; else the
///   request rounded up to 2 MiB.
/// - The rest of the block is split off if it has at least 512 B (small pool) or more than 1 MiB (large pool).
/// - A freed block merges with free neighbours of its segment.
/// - Where the source has no more: oversize blocks are given back (only with max_split_bytes), and else every segment
///   without a live block, in the order of acquisition; then the source is asked once more (num_alloc_retries). If
///   that fails too: num_ooms and OutOfMemory, whose statistics are those after the release and count this failure.
///   PyTorch queues work as it allocates and waits for it before it gives memory back; here work follows its whole
///   layout, so what the layout has used is kept (begin_layout).
/// - A planned segment, where there is one, counts in the large pool. Its blocks serve allocate_at alone, and it is
///   given back by release_cached.
///
/// With expandable segments, as there:
///
/// - A free block that unmapped pages follow counts for the best fit with these pages: from the smallest block that
///   suffices on, the next larger one is taken as long as it could grow less.
/// - The rest of a block is split off if it has at least 512 B in either pool.
/// - Without a sufficient free block, pages are mapped; see Note [Expandable segments]. Where the source refuses one of
///   them, those mapped for the same gap are unmapped again, the cache is given back, and the source is asked once
///   more.
///
/// Deterministic: the same calls over sources that fail at the same calls give the same offsets, ids and statistics.
/// Ids are reused, last freed first, and grow no larger than needed. allocate and free do not touch the system heap
/// unless the number of blocks or segments reaches a new high or a segment is acquired.
///
/// Statistics count as PyTorch's do: a change of inactive_split by one call is one increase or one decrease.
class CachingAllocator final : public Allocator {
 public:
  /// The source must outlive the allocator. Throws DeviceError where options ask for expandable segments and the
  /// source has no address ranges.
  explicit CachingAllocator(MemorySource& source, const CachingAllocatorOptions& options = {});
  /// Gives every segment back, also those with live blocks.
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  Block allocate(std::int64_t num_bytes) override;
  Block allocate_at(std::int64_t num_bytes, std::int64_t offset) override;
  bool may_plan_segment() const override { return options_.may_plan_segment && !planned_; }
  bool plan_segment(std::int64_t num_bytes) override;
  /// A block that is not live is a bug of the caller and ends the process.
  void free(const Block& block) noexcept override;
  void begin_layout() override { ++layout_; }
  void release_cached() noexcept override;

  const MemoryStatistics& statistics() const override { return statistics_; }
  void reset_peaks() override { statistics_.reset_peaks(); }
  std::int64_t capacity() const override { return source_.capacity(); }
  std::int64_t largest_free_block() const override;
  /// Covers sizes, pools and order of the segments; sizes, requests and order of their blocks. Not ids, addresses and
  /// statistics: they do not influence what follows, and so the steps of a run that has settled down are equal.
  std::uint64_t fingerprint() const override;
  MemorySnapshot snapshot() const override;
  std::unique_ptr<Allocator> hand_on() override;
  CachedSegments cached() const override;

 private:
  /// A block, live or free, linked to its neighbours in the segment. Unused records are linked through `next`.
  struct Record {
    std::uintptr_t segment_address = 0;
    std::int64_t segment = 0;  ///< number of the segment
    std::int64_t offset = 0;
    std::int64_t size = 0;
    std::int64_t requested = 0;
    std::int64_t layout = 0;  ///< the last in which a part of it was in a block
    std::int32_t previous = -1;
    std::int32_t next = -1;
    bool live = false;
    bool small = false;
    bool mapped =
        true;  ///< false: pages of an expandable segment without memory; never live, in no list of free blocks

    bool is_split() const { return previous >= 0 || next >= 0; }
    /// Not pointer arithmetic: the addresses of a simulated source point to nothing.
    void* address() const { return reinterpret_cast<void*>(segment_address + static_cast<std::uintptr_t>(offset)); }
  };
  struct Segment {
    void* address = nullptr;
    std::int64_t number = 0;
    std::int64_t size = 0;    ///< of an expandable segment: of its range
    std::int32_t first = -1;  ///< record at offset 0: never changes, since the lower of two merging blocks stays
    bool small = false;
  };

  FreeBlocks& pool(bool small) { return small ? small_free_ : large_free_; }
  bool is_live(const Block& block) const;
  FreeBlock free_block(std::int32_t id) const;
  std::int32_t take_record();
  void return_record(std::int32_t id);
  bool lacks_records() const;
  void grow_records();
  std::int32_t split_off(std::int32_t id, std::int64_t size);
  struct Merged {
    std::int32_t id = -1;  ///< the lowest of the merged records
    std::int64_t num_absorbed = 0, absorbed_bytes = 0;
  };
  Merged merge_with_neighbours(std::int32_t id);

  std::int32_t take_free_block(std::int64_t rounded, bool small);
  std::int32_t acquire_segment(std::int64_t requested, std::int64_t rounded, bool small);
  Block occupy(std::int32_t id, std::int64_t requested, std::int64_t rounded);
  bool may_release(const Record& free) const { return layout_ == 0 || free.layout < layout_; }
  void release_unused() noexcept;
  bool release_oversize(std::int64_t rounded) noexcept;
  bool wholly_free(const Segment& segment) const;
  void release_segment(const Segment& segment) noexcept;

  // Note [Cached segments] (caching_allocator_handing_on.cpp)
  void begin_with(const CachedSegments& segments);
  bool acquire_alike(const CachedSegments::Segment& segment);
  void take_over(const CachedSegments::Segment& segment, void* address);
  void forget_segments();

  // Expandable segments (caching_allocator_expandable.cpp)
  static std::int64_t page_bytes(bool small);
  std::int64_t size_with_growth(const FreeBlock& block) const;
  std::int32_t acquire_pages(std::int64_t requested, std::int64_t rounded, bool small);
  std::int32_t expand(std::int64_t rounded, bool small, std::int64_t& refused_bytes);
  std::int32_t find_room(std::int64_t rounded, bool small) const;
  std::int32_t reserve_range(std::int64_t rounded, bool small);
  bool map_room(std::int32_t id, std::int64_t rounded, std::int64_t& refused_bytes);
  bool map_gap(std::int32_t id, std::int64_t num_bytes, std::int64_t& refused_bytes);
  void unmap_free_pages(bool all) noexcept;
  std::int32_t unmap_block(std::int32_t id) noexcept;
  void release_empty_ranges() noexcept;
  void release_ranges() noexcept;

  void count_reserved(bool small, std::int64_t num_bytes);
  [[noreturn]] void fail(std::int64_t requested, std::int64_t rounded, std::int64_t segment_bytes);

  MemorySource& source_;
  CachingAllocatorOptions options_;
  std::vector<Record> records_;
  std::int32_t unused_ = -1;  ///< first unused record
  std::int32_t num_unused_ = 0;
  std::vector<Segment> segments_;  ///< in the order they were acquired
  std::int64_t next_segment_number_ = 0;
  std::int64_t layout_ = 0;  ///< number of the present one; 0: none has begun
  FreeBlocks small_free_, large_free_;
  MemoryStatistics statistics_;
  std::unique_ptr<PlannedSegment> planned_;  ///< once there is one
};

}  // namespace trainer
