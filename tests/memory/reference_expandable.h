#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/memory/reference_allocator.h"

namespace trainer::test {

/// The rules of expandable segments as plainly as possible: a range is the live blocks in it and one flag for each of
/// its pages, and what is free or unmapped is what remains, worked out anew for every question. The oracle of the
/// caching allocator with expandable segments; shares nothing with engine/memory.
class ReferenceExpandable {
 public:
  struct Live {
    std::int64_t size = 0, requested = 0;
    int handle = -1;
  };
  struct Range {
    bool small = false;
    std::vector<bool> pages;            ///< whether mapped
    std::map<std::int64_t, Live> live;  ///< by offset
    std::int64_t page_size() const { return small ? 2097152 : 20971520; }
  };
  /// A stretch of a range: a live block, or as much free or unmapped room as lies in one piece.
  struct Stretch {
    enum Kind { live, free, unmapped } kind = free;
    std::int64_t offset = 0, size = 0, requested = 0;
    int handle = -1;
  };
  struct Place {
    std::size_t range = 0;
    std::int64_t offset = 0, size = 0;
  };

  ReferenceExpandable(std::int64_t capacity, std::set<int> refused_calls)
      : capacity_(capacity), refused_calls_(std::move(refused_calls)) {}

  std::optional<Place> allocate(int handle, std::int64_t requested);
  void free(int handle);
  void release_cached();
  void reset_peaks();

  const std::vector<Range>& ranges() const { return ranges_; }
  static std::vector<Stretch> stretches(const Range& range);
  const ReferenceAllocator::Counts& counts() const { return counts_; }
  std::int64_t num_alloc_retries() const { return num_alloc_retries_; }
  std::int64_t num_ooms() const { return num_ooms_; }
  int num_source_calls() const { return num_source_calls_; }
  std::int64_t held() const;
  std::int64_t largest_free_block() const;
  std::int64_t refused_bytes() const { return refused_bytes_; }
  std::string layout() const;

 private:
  std::optional<Place> best_free(std::int64_t size, bool small) const;
  std::optional<Place> make_room(std::int64_t size, bool small);
  bool map_pages(Range& range, std::int64_t first_page, std::int64_t end_page);
  void drop_empty_ranges();
  void count();

  std::int64_t capacity_;
  std::set<int> refused_calls_;
  std::vector<Range> ranges_;
  ReferenceAllocator::Counts counts_{};
  std::int64_t num_alloc_retries_ = 0, num_ooms_ = 0, refused_bytes_ = 0;
  int num_source_calls_ = 0;
};

}  // namespace trainer::test
