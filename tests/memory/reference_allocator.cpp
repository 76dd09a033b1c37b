#include "tests/memory/reference_allocator.h"

namespace trainer::test {

std::int64_t ReferenceAllocator::rounded(std::int64_t requested) {
  std::int64_t size = 512;
  if (requested > size) size = requested + (512 - requested % 512) % 512;
  return size;
}

std::int64_t ReferenceAllocator::segment_size(std::int64_t rounded) {
  if (rounded <= 1048576) return 2097152;
  if (rounded < 10485760) return 20971520;
  return rounded + (2097152 - rounded % 2097152) % 2097152;
}

std::optional<ReferenceAllocator::Place> ReferenceAllocator::allocate(int handle, std::int64_t requested) {
  const std::int64_t size = rounded(requested);
  const bool small = size <= 1048576;
  std::optional<Place> place = find_best(size);
  if (!place) {
    const std::int64_t wanted = segment_size(size);
    bool added = add_segment(wanted, small);
    if (!added && release_oversize(size)) added = add_segment(wanted, small);
    if (!added) {
      release_cached();
      ++num_alloc_retries_;
      added = add_segment(wanted, small);
    }
    if (!added) {
      ++num_ooms_;
      return std::nullopt;
    }
    place = Place{segments_.size() - 1, 0, wanted};
  }

  Segment& home = segments_[place->segment];
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < home.blocks.size(); offset += home.blocks[i].size, ++i) {
    if (offset != place->offset) continue;
    const std::int64_t rest = home.blocks[i].size - size;
    const bool may_split = small || !max_split_ || size < *max_split_;
    const bool worth_it = small ? rest >= 512 : rest > 1048576;
    if (may_split && worth_it) {
      home.blocks[i].size = size;
      home.blocks.insert(home.blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1, Block{rest, 0, -1});
    }
    home.blocks[i].handle = handle;
    home.blocks[i].requested = requested;
    place->size = home.blocks[i].size;
    break;
  }
  count();
  return place;
}

void ReferenceAllocator::free(int handle) {
  for (Segment& home : segments_) {
    for (Block& block : home.blocks)
      if (block.handle == handle) block = Block{block.size, 0, -1};
    for (std::size_t i = 0; i + 1 < home.blocks.size();) {
      if (home.blocks[i].handle >= 0 || home.blocks[i + 1].handle >= 0) {
        ++i;
        continue;
      }
      home.blocks[i].size += home.blocks[i + 1].size;
      home.blocks.erase(home.blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  count();
}

void ReferenceAllocator::release_cached() {
  std::vector<Segment> kept;
  for (const Segment& home : segments_)
    if (home.blocks.size() > 1 || home.blocks[0].handle >= 0) kept.push_back(home);
  segments_ = kept;
  count();
}

void ReferenceAllocator::reset_peaks() {
  for (auto& quantity : counts_)
    for (Count& one : quantity) one.peak = one.current;
}

std::int64_t ReferenceAllocator::held() const {
  std::int64_t sum = 0;
  for (const Segment& home : segments_) sum += home.size;
  return sum;
}

std::int64_t ReferenceAllocator::largest_free_block() const {
  std::int64_t largest = 0;
  for (const Segment& home : segments_)
    for (const Block& block : home.blocks)
      if (block.handle < 0 && block.size > largest) largest = block.size;
  return largest;
}

std::string ReferenceAllocator::layout() const {
  std::string text;
  for (const Segment& home : segments_) {
    text += (home.small ? "S" : "L") + std::to_string(home.size) + ":";
    for (const Block& block : home.blocks) {
      text += std::to_string(block.size);
      text += block.handle < 0 ? "f" : "l" + std::to_string(block.requested);
      text += ",";
    }
  }
  return text;
}

/// Smallest sufficient free block of the pool; the first one seen among equals.
std::optional<ReferenceAllocator::Place> ReferenceAllocator::find_best(std::int64_t size) const {
  std::optional<Place> best;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (segments_[s].small != (size <= 1048576)) continue;
    std::int64_t offset = 0;
    for (const Block& block : segments_[s].blocks) {
      if (block.handle < 0 && block.size >= size && (!best || block.size < best->size))
        best = Place{s, offset, block.size};
      offset += block.size;
    }
  }
  if (best && max_split_) {
    if (size < *max_split_ && best->size >= *max_split_) return std::nullopt;
    if (size >= *max_split_ && best->size >= size + 20971520) return std::nullopt;
  }
  return best;
}

bool ReferenceAllocator::source_grants(std::int64_t size) {
  const bool refused = refused_calls_.count(num_source_calls_) != 0;
  ++num_source_calls_;
  return !refused && held() + size <= capacity_;
}

bool ReferenceAllocator::add_segment(std::int64_t size, bool small) {
  if (!source_grants(size)) return false;
  segments_.push_back(Segment{size, small, {Block{size, 0, -1}}});
  count();
  return true;
}

/// The smallest oversize block that suffices, else the largest ones until they suffice together. A set of its own
/// decides here what is sufficient: the request, or max_split if that is more.
bool ReferenceAllocator::release_oversize(std::int64_t size) {
  if (!max_split_) return false;
  const std::int64_t wanted = size > *max_split_ ? size : *max_split_;
  const auto is_candidate = [&](const Segment& home) {
    return !home.small && home.blocks.size() == 1 && home.blocks[0].handle < 0 && home.size >= *max_split_;
  };
  std::optional<std::size_t> chosen;
  for (std::size_t s = 0; s < segments_.size(); ++s)
    if (is_candidate(segments_[s]) && segments_[s].size >= wanted &&
        (!chosen || segments_[s].size < segments_[*chosen].size))
      chosen = s;
  std::int64_t released = 0;
  while (released < wanted) {
    if (!chosen) {
      for (std::size_t s = 0; s < segments_.size(); ++s)
        if (is_candidate(segments_[s]) && (!chosen || segments_[s].size >= segments_[*chosen].size)) chosen = s;
    }
    if (!chosen) break;
    released += segments_[*chosen].size;
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(*chosen));
    count();
    chosen.reset();
  }
  return released >= wanted;
}

/// Counts everything anew; what is more or less than before is an increase or a decrease.
void ReferenceAllocator::count() {
  std::array<std::array<std::int64_t, num_pools>, num_quantities> now{};
  const auto add = [&now](Quantity quantity, bool small, std::int64_t amount) {
    now[quantity][all] += amount;
    now[quantity][small ? small_pool : large_pool] += amount;
  };
  for (const Segment& home : segments_) {
    add(segment, home.small, 1);
    add(reserved_bytes, home.small, home.size);
    for (const Block& block : home.blocks) {
      if (block.handle >= 0) {
        add(allocation, home.small, 1);
        add(active, home.small, 1);
        add(requested_bytes, home.small, block.requested);
        add(allocated_bytes, home.small, block.size);
        add(active_bytes, home.small, block.size);
      } else if (home.blocks.size() > 1) {
        add(inactive_split, home.small, 1);
        add(inactive_split_bytes, home.small, block.size);
      }
    }
  }
  for (int quantity = 0; quantity < num_quantities; ++quantity) {
    for (int pool = 0; pool < num_pools; ++pool) {
      Count& one = counts_[quantity][pool];
      const std::int64_t value = now[quantity][pool];
      if (value > one.current) one.allocated += value - one.current;
      if (value < one.current) one.freed += one.current - value;
      one.current = value;
      if (value > one.peak) one.peak = value;
    }
  }
}

}  // namespace trainer::test
