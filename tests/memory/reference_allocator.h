#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trainer::test {

/// The rules of the caching allocator written down as plainly as possible: lists of segments of lists of blocks,
/// everything found by looking at all of them, every counter counted anew after each change. Shares nothing with
/// engine/memory, and is the oracle of its tests.
class ReferenceAllocator {
 public:
  struct Block {
    std::int64_t size = 0;
    std::int64_t requested = 0;
    int handle = -1;  ///< the caller's name for a live block; -1 where free
  };
  struct Segment {
    std::int64_t size = 0;
    bool small = false;
    std::vector<Block> blocks;
  };
  struct Place {
    std::size_t segment = 0;
    std::int64_t offset = 0;
    std::int64_t size = 0;
  };
  struct Count {
    std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  };
  enum Quantity {
    allocation,
    segment,
    active,
    inactive_split,
    requested_bytes,
    allocated_bytes,
    reserved_bytes,
    active_bytes,
    inactive_split_bytes,
    num_quantities
  };
  enum Pool { all, small_pool, large_pool, num_pools };
  using Counts = std::array<std::array<Count, num_pools>, num_quantities>;

  ReferenceAllocator(std::int64_t capacity, std::set<int> refused_calls, std::optional<std::int64_t> max_split)
      : capacity_(capacity), refused_calls_(std::move(refused_calls)), max_split_(max_split) {}

  /// Where the block lies; nothing if out of memory.
  std::optional<Place> allocate(int handle, std::int64_t requested);
  void free(int handle);
  void release_cached();
  void reset_peaks();

  const std::vector<Segment>& segments() const { return segments_; }
  const Counts& counts() const { return counts_; }
  std::int64_t num_alloc_retries() const { return num_alloc_retries_; }
  std::int64_t num_ooms() const { return num_ooms_; }
  int num_source_calls() const { return num_source_calls_; }
  std::int64_t held() const;
  std::int64_t largest_free_block() const;
  /// The layout as text: "S2097152:512l500,2096640f " …
  std::string layout() const;

  static std::int64_t rounded(std::int64_t requested);
  static std::int64_t segment_size(std::int64_t rounded);

 private:
  std::optional<Place> find_best(std::int64_t size) const;
  bool source_grants(std::int64_t size);
  bool add_segment(std::int64_t size, bool small);
  bool release_oversize(std::int64_t size);
  void count();

  std::int64_t capacity_;
  std::set<int> refused_calls_;
  std::optional<std::int64_t> max_split_;
  std::vector<Segment> segments_;
  Counts counts_{};
  std::int64_t num_alloc_retries_ = 0, num_ooms_ = 0;
  int num_source_calls_ = 0;
};

}  // namespace trainer::test
