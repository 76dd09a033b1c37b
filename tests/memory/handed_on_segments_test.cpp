// What one allocator has cached goes on into another.

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_source.h"
#include "engine/memory/simulated_source.h"
#include "tests/memory/counter_sums.h"
#include "tests/memory/random_requests.h"
#include "tests/memory/units.h"

namespace trainer::test {
namespace {

/// Random requests, of which some stay live until the end.
void use(Allocator& allocator, std::uint64_t seed) {
  Random random(seed);
  std::vector<Block> live;
  for (int i = 0; i < 200; ++i) {
    if (i % 20 == 0) allocator.begin_layout();
    if (!live.empty() && random.chance(45)) {
      const auto which = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(live.size())));
      allocator.free(live[which]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    try {
      live.push_back(allocator.allocate(random_size(random)));
    } catch (const OutOfMemory&) {
    }
  }
  for (const Block& block : live) allocator.free(block);
}

/// Makes the same requests of both, which are to differ in addresses alone.
void check_alike(Allocator& one, Allocator& other, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::pair<Block, Block>> live;
  for (int i = 0; i < 200; ++i) {
    if (i % 20 == 0) {
      one.begin_layout();
      other.begin_layout();
    }
    if (!live.empty() && random.chance(45)) {
      const auto which = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(live.size())));
      one.free(live[which].first);
      other.free(live[which].second);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::int64_t size = random_size(random);
      bool failed = false;
      std::pair<Block, Block> blocks;
      try {
        blocks.first = one.allocate(size);
      } catch (const OutOfMemory&) {
        failed = true;
      }
      if (failed) {
        CHECK_THROWS_AS(other.allocate(size), OutOfMemory);
      } else {
        blocks.second = other.allocate(size);
        CHECK(blocks.first.size == blocks.second.size);
        live.push_back(blocks);
      }
    }
    REQUIRE(one.fingerprint() == other.fingerprint());
    REQUIRE(one.statistics() == other.statistics());
  }
  for (const auto& [first, second] : live) {
    one.free(first);
    other.free(second);
  }
}

}  // namespace

TEST_CASE("What is handed on stays where it is, and its counters begin anew") {
  HostSource source(64 * mib);
  auto former = std::make_unique<CachingAllocator>(source);
  const Block small = former->allocate(kib), large = former->allocate(30 * mib);
  *static_cast<char*>(large.address) = 'x';
  const void* const address = large.address;
  CHECK_THROWS_AS(former->allocate(60 * mib), OutOfMemory);
  former->free(small);
  former->free(large);
  const std::unique_ptr<Allocator> next = former->hand_on();
  CHECK(former->statistics().reserved_bytes.all.current == 0);
  former.reset();  // it gives nothing back that is another's
  CHECK(source.held() == 32 * mib);
  const MemoryStatistics& statistics = next->statistics();
  CHECK(statistics.reserved_bytes.all.current == 32 * mib);
  CHECK(statistics.reserved_bytes.all.peak == 32 * mib);
  CHECK(statistics.segment.all.current == 2);
  CHECK((statistics.num_alloc_retries == 0 && statistics.num_ooms == 0));
  check_counters_are_sums(*next);
  const Block again = next->allocate(30 * mib);
  CHECK(again.address == address);
  CHECK(*static_cast<char*>(again.address) == 'x');
  CHECK(statistics.reserved_bytes.all.current == 32 * mib);
  next->free(again);
  next->release_cached();
  CHECK(source.held() == 0);
}

TEST_CASE("An allocator that begins with what another has cached behaves as the one that it was handed to") {
  const bool expands = GENERATE(false, true);
  const auto seed = GENERATE(range<std::uint64_t>(0, 20));
  INFO("expandable " << expands << ", seed " << seed);
  CachingAllocatorOptions options{.expandable_segments = expands};
  SimulatedSource source(120 * mib);
  CachingAllocator former(source, options);
  use(former, seed);
  options.begins_with = std::make_shared<const CachedSegments>(former.cached());
  REQUIRE(options.begins_with->num_bytes() > 0);
  const std::unique_ptr<Allocator> next = former.hand_on();
  SimulatedSource other(120 * mib);
  CachingAllocator planned(other, options);
  CHECK(other.held() == source.held());
  CHECK(planned.fingerprint() == next->fingerprint());
  CHECK(planned.statistics().reserved_bytes.all.current == next->statistics().reserved_bytes.all.current);
  CHECK(planned.cached() == *options.begins_with);
  CHECK(dynamic_cast<CachingAllocator&>(*next).cached() == *options.begins_with);
  next->begin_layout();
  planned.begin_layout();
  // Totals since the start may count what was acquired first in other steps.
  REQUIRE(planned.statistics() == next->statistics());
  check_alike(*next, planned, seed + 1000);
  // It can be handed on again.
  const CachedSegments left = next->cached();
  CHECK(planned.cached() == left);
  const std::unique_ptr<Allocator> third = next->hand_on();
  CHECK(third->cached() == left);
  third->release_cached();
  CHECK(source.held() == 0);
}

TEST_CASE("A cache of more than the source gives is not begun with") {
  const bool expands = GENERATE(false, true);
  CachingAllocatorOptions options{.expandable_segments = expands};
  SimulatedSource source(120 * mib), less(60 * mib);
  CachingAllocator former(source, options);
  const Block one = former.allocate(40 * mib), two = former.allocate(40 * mib);
  former.free(one);
  former.free(two);
  options.begins_with = std::make_shared<const CachedSegments>(former.cached());
  CachingAllocator next(less, options);
  CHECK(less.held() == 0);
  CHECK(next.statistics().reserved_bytes.all.peak == 0);
  CHECK(next.allocate(50 * mib).size == 50 * mib);
}

TEST_CASE("A planned segment is not handed on") {
  SimulatedSource source(64 * mib);
  CachingAllocator former(source, {.may_plan_segment = true});
  const Block block = former.allocate(20 * mib);
  REQUIRE(former.plan_segment(40 * mib));
  former.free(former.allocate_at(30 * mib, 0));
  former.free(block);
  CHECK(source.held() == 60 * mib);
  CHECK(former.cached().num_bytes() == 20 * mib);
  const std::unique_ptr<Allocator> next = former.hand_on();
  CHECK(source.held() == 20 * mib);
  CHECK(next->may_plan_segment());
  CHECK(next->statistics().reserved_bytes.all.current == 20 * mib);
}

}  // namespace trainer::test
