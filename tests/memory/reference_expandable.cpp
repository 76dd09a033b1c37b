#include "tests/memory/reference_expandable.h"

namespace trainer::test {

std::vector<ReferenceExpandable::Stretch> ReferenceExpandable::stretches(const Range& range) {
  std::vector<Stretch> found;
  const std::int64_t page = range.page_size();
  const std::int64_t end = page * static_cast<std::int64_t>(range.pages.size());
  std::int64_t offset = 0;
  while (offset < end) {
    const auto block = range.live.find(offset);
    if (block != range.live.end()) {
      found.push_back({Stretch::live, offset, block->second.size, block->second.requested, block->second.handle});
      offset += block->second.size;
      continue;
    }
    const bool mapped = range.pages[static_cast<std::size_t>(offset / page)];
    // Up to the next page of the other kind or the next live block, whichever comes first.
    std::int64_t stop = offset;
    do stop = (stop / page + 1) * page;
    while (stop < end && range.pages[static_cast<std::size_t>(stop / page)] == mapped);
    const auto next = range.live.upper_bound(offset);
    if (next != range.live.end() && next->first < stop) stop = next->first;
    found.push_back({mapped ? Stretch::free : Stretch::unmapped, offset, stop - offset, 0, -1});
    offset = stop;
  }
  return found;
}

std::optional<ReferenceExpandable::Place> ReferenceExpandable::allocate(int handle, std::int64_t requested) {
  const std::int64_t size = ReferenceAllocator::rounded(requested);
  const bool small = size <= 1048576;
  std::optional<Place> place = best_free(size, small);
  if (!place) place = make_room(size, small);
  if (!place) {
    release_cached();
    ++num_alloc_retries_;
    place = make_room(size, small);
  }
  if (!place) {
    ++num_ooms_;
    return std::nullopt;
  }
  place->size = size;
  ranges_[place->range].live[place->offset] = Live{size, requested, handle};
  count();
  return place;
}

void ReferenceExpandable::free(int handle) {
  for (Range& range : ranges_)
    std::erase_if(range.live, [&](const auto& entry) { return entry.second.handle == handle; });
  count();
}

void ReferenceExpandable::release_cached() {
  for (Range& range : ranges_) {
    for (std::size_t p = 0; p < range.pages.size(); ++p) {
      const std::int64_t begin = static_cast<std::int64_t>(p) * range.page_size();
      const std::int64_t end = begin + range.page_size();
      bool used = false;
      for (const auto& [offset, block] : range.live) used = used || (offset < end && offset + block.size > begin);
      if (!used) range.pages[p] = false;
    }
  }
  drop_empty_ranges();
  count();
}

void ReferenceExpandable::drop_empty_ranges() {
  std::erase_if(ranges_, [](const Range& range) {
    for (const bool mapped : range.pages)
      if (mapped) return false;
    return true;
  });
}

void ReferenceExpandable::reset_peaks() {
  for (auto& quantity : counts_)
    for (ReferenceAllocator::Count& one : quantity) one.peak = one.current;
}

/// The smallest sufficient free block; from there on to the next larger one as long as that has less room to grow.
std::optional<ReferenceExpandable::Place> ReferenceExpandable::best_free(std::int64_t size, bool small) const {
  struct Candidate {
    Place place;
    std::int64_t with_growth;
  };
  std::vector<Candidate> sorted;
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    if (ranges_[r].small != small) continue;
    const std::vector<Stretch> all = stretches(ranges_[r]);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind != Stretch::free || all[i].size < size) continue;
      const bool grows = i + 1 < all.size() && all[i + 1].kind == Stretch::unmapped;
      const Candidate candidate{{r, all[i].offset, all[i].size}, all[i].size + (grows ? all[i + 1].size : 0)};
      // Sorted by size; those of equal size stay in the order they are found in.
      std::size_t position = sorted.size();
      while (position > 0 && sorted[position - 1].place.size > candidate.place.size) --position;
      sorted.insert(sorted.begin() + static_cast<std::ptrdiff_t>(position), candidate);
    }
  }
  if (sorted.empty()) return std::nullopt;
  std::size_t chosen = 0;
  while (chosen + 1 < sorted.size() && sorted[chosen + 1].with_growth < sorted[chosen].with_growth) ++chosen;
  return sorted[chosen].place;
}

std::optional<ReferenceExpandable::Place> ReferenceExpandable::make_room(std::int64_t size, bool small) {
  std::optional<Place> place;
  for (std::size_t r = 0; r < ranges_.size() && !place; ++r) {
    if (ranges_[r].small != small) continue;
    // Any room without live blocks in it will do that begins with a gap, or with one free block before a gap.
    const std::vector<Stretch> all = stretches(ranges_[r]);
    for (std::size_t gap = 0; gap < all.size() && !place; ++gap) {
      if (all[gap].kind != Stretch::unmapped) continue;
      const std::size_t start = gap > 0 && all[gap - 1].kind == Stretch::free ? gap - 1 : gap;
      std::int64_t room = 0;
      for (std::size_t i = start; i < all.size() && all[i].kind != Stretch::live; ++i) room += all[i].size;
      if (room >= size) place = Place{r, all[start].offset, size};
    }
  }
  const std::int64_t page = small ? 2097152 : 20971520;
  if (!place) {
    if (size > capacity_) {
      refused_bytes_ = (size + page - 1) / page * page;
      return std::nullopt;
    }
    const std::int64_t wanted = capacity_ + capacity_ / 8;
    ranges_.push_back({small, std::vector<bool>(static_cast<std::size_t>((wanted + page - 1) / page), false), {}});
    place = Place{ranges_.size() - 1, 0, size};
  }
  Range& range = ranges_[place->range];
  bool granted = true;
  for (const Stretch& gap : stretches(range)) {
    if (gap.kind != Stretch::unmapped || gap.offset + gap.size <= place->offset) continue;
    if (gap.offset >= place->offset + size || !granted) break;
    const std::int64_t end = std::min(gap.offset + gap.size, place->offset + size);
    granted = map_pages(range, gap.offset / page, (end + page - 1) / page);
    count();
  }
  if (!granted) {
    drop_empty_ranges();
    return std::nullopt;
  }
  return place;
}

bool ReferenceExpandable::map_pages(Range& range, std::int64_t first_page, std::int64_t end_page) {
  const std::vector<bool> before = range.pages;
  for (std::int64_t page = first_page; page < end_page; ++page) {
    const bool refused = refused_calls_.count(num_source_calls_++) != 0;
    if (refused || held() + range.page_size() > capacity_) {
      range.pages = before;
      refused_bytes_ = (end_page - first_page) * range.page_size();
      return false;
    }
    range.pages[static_cast<std::size_t>(page)] = true;
  }
  return true;
}

std::int64_t ReferenceExpandable::held() const {
  std::int64_t sum = 0;
  for (const Range& range : ranges_)
    for (const bool mapped : range.pages) sum += mapped ? range.page_size() : 0;
  return sum;
}

std::int64_t ReferenceExpandable::largest_free_block() const {
  std::int64_t largest = 0;
  for (const Range& range : ranges_)
    for (const Stretch& stretch : stretches(range))
      if (stretch.kind == Stretch::free && stretch.size > largest) largest = stretch.size;
  return largest;
}

std::string ReferenceExpandable::layout() const {
  std::string text;
  for (const Range& range : ranges_) {
    text += range.small ? "S:" : "L:";
    for (const Stretch& stretch : stretches(range)) {
      text += std::to_string(stretch.size);
      text += stretch.kind == Stretch::free       ? "f,"
              : stretch.kind == Stretch::unmapped ? "u,"
                                                  : "l" + std::to_string(stretch.requested) + ",";
    }
  }
  return text;
}

/// Counts everything anew, as ReferenceAllocator does; expandable segments count for no segment and no split.
void ReferenceExpandable::count() {
  using Reference = ReferenceAllocator;
  std::array<std::array<std::int64_t, Reference::num_pools>, Reference::num_quantities> now{};
  const auto add = [&now](Reference::Quantity quantity, bool small, std::int64_t amount) {
    now[quantity][Reference::all] += amount;
    now[quantity][small ? Reference::small_pool : Reference::large_pool] += amount;
  };
  for (const Range& range : ranges_) {
    for (const bool mapped : range.pages) add(Reference::reserved_bytes, range.small, mapped ? range.page_size() : 0);
    for (const auto& [offset, block] : range.live) {
      add(Reference::allocation, range.small, 1);
      add(Reference::active, range.small, 1);
      add(Reference::requested_bytes, range.small, block.requested);
      add(Reference::allocated_bytes, range.small, block.size);
      add(Reference::active_bytes, range.small, block.size);
    }
  }
  for (int quantity = 0; quantity < Reference::num_quantities; ++quantity) {
    for (int pool = 0; pool < Reference::num_pools; ++pool) {
      Reference::Count& one = counts_[quantity][pool];
      const std::int64_t value = now[quantity][pool];
      if (value > one.current) one.allocated += value - one.current;
      if (value < one.current) one.freed += one.current - value;
      one.current = value;
      if (value > one.peak) one.peak = value;
    }
  }
}

}  // namespace trainer::test
