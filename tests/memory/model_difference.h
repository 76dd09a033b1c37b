#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "engine/memory/allocator.h"
#include "tests/memory/failing_source.h"
#include "tests/memory/reference_allocator.h"

namespace trainer::test {

/// Empty where the statistics are what a model counted, else what differs.
template <typename Model>
std::string difference(const MemoryStatistics& statistics, const Model& model) {
  std::ostringstream text;
  const std::array<std::pair<const PooledCounter*, ReferenceAllocator::Quantity>, 9> pairs = {{
      {&statistics.allocation, ReferenceAllocator::allocation},
      {&statistics.segment, ReferenceAllocator::segment},
      {&statistics.active, ReferenceAllocator::active},
      {&statistics.inactive_split, ReferenceAllocator::inactive_split},
      {&statistics.requested_bytes, ReferenceAllocator::requested_bytes},
      {&statistics.allocated_bytes, ReferenceAllocator::allocated_bytes},
      {&statistics.reserved_bytes, ReferenceAllocator::reserved_bytes},
      {&statistics.active_bytes, ReferenceAllocator::active_bytes},
      {&statistics.inactive_split_bytes, ReferenceAllocator::inactive_split_bytes},
  }};
  for (const auto& [counter, quantity] : pairs) {
    const std::array<const Counter*, 3> pools = {&counter->all, &counter->small_pool, &counter->large_pool};
    for (int pool = 0; pool < 3; ++pool) {
      const Counter& actual = *pools[pool];
      const ReferenceAllocator::Count& expected = model.counts()[quantity][pool];
      if (actual.current != expected.current || actual.peak != expected.peak ||
          actual.allocated != expected.allocated || actual.freed != expected.freed)
        text << "counter " << quantity << " pool " << pool << ": " << actual.current << " " << actual.peak << " "
             << actual.allocated << " " << actual.freed << ", expected " << expected.current << " " << expected.peak
             << " " << expected.allocated << " " << expected.freed << "\n";
    }
  }
  if (statistics.num_alloc_retries != model.num_alloc_retries()) text << "num_alloc_retries\n";
  if (statistics.num_ooms != model.num_ooms()) text << "num_ooms\n";
  return text.str();
}

/// The same of all that an allocator and its source tell but the snapshot.
template <typename Model>
std::string difference(const Allocator& allocator, const FailingSource& source, const Model& model) {
  std::string text = difference(allocator.statistics(), model);
  if (source.num_calls() != model.num_source_calls()) text += "calls of the source\n";
  if (source.held() != model.held()) text += "bytes held\n";
  if (source.num_wrong_releases() != 0) text += "wrong map, unmap or release\n";
  if (allocator.largest_free_block() != model.largest_free_block()) text += "largest free block\n";
  return text;
}

/// Of the failure of a request for which `segment_bytes` were asked of the source.
template <typename Model>
std::string difference(const AllocationFailure& failure, std::int64_t requested, std::int64_t segment_bytes,
                       std::int64_t capacity, const Model& model) {
  std::string text = difference(failure.statistics, model);
  if (failure.requested != requested) text += "requested\n";
  if (failure.rounded != ReferenceAllocator::rounded(requested)) text += "rounded\n";
  if (failure.segment_bytes != segment_bytes) text += "segment_bytes\n";
  if (failure.capacity != capacity) text += "capacity\n";
  if (failure.largest_free_block != model.largest_free_block()) text += "largest_free_block\n";
  return text;
}

/// Whether a block of a snapshot is the one that a model has at `offset`: free, or live where its handle says.
template <typename ModelBlock>
bool is_same_block(const SegmentSnapshot& segment, const BlockSnapshot& block, std::int64_t offset,
                   const ModelBlock& wanted, const std::map<int, Block>& live) {
  if (block.offset != offset || block.size != wanted.size || block.requested != wanted.requested ||
      (block.id >= 0) != (wanted.handle >= 0))
    return false;
  if (wanted.handle < 0) return true;
  const Block& held = live.at(wanted.handle);
  return held.id == block.id && held.size == wanted.size && held.requested == wanted.requested &&
         reinterpret_cast<std::uintptr_t>(held.address) == segment.address + static_cast<std::uint64_t>(offset);
}

/// Checks that fingerprints are equal exactly where the layouts of models are.
class SeenLayouts {
 public:
  void see(const std::string& layout, std::uint64_t fingerprint) {
    const auto [known, is_new] = fingerprint_of_.try_emplace(layout, fingerprint);
    num_seen_again_ += is_new ? 0 : 1;
    if (known->second != fingerprint) FAIL("two fingerprints of the layout " << layout);
    const std::string& first = layout_of_.try_emplace(fingerprint, layout).first->second;
    if (first != layout) FAIL("one fingerprint for " << first << " and " << layout);
  }
  void check_many_were_seen() const {
    CHECK(num_seen_again_ > 1000);
    CHECK(fingerprint_of_.size() > 1000);
  }

 private:
  std::map<std::string, std::uint64_t> fingerprint_of_;
  std::map<std::uint64_t, std::string> layout_of_;
  std::int64_t num_seen_again_ = 0;
};

}  // namespace trainer::test
