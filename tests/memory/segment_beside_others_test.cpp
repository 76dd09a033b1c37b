// A planned segment beside the segments of the caching allocator.

#include <catch2/catch.hpp>
#include <map>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/simulated_source.h"
#include "tests/memory/counter_sums.h"
#include "tests/memory/random_requests.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {

const CachingAllocatorOptions may_plan = {.may_plan_segment = true};

void check_sums(const CachingAllocator& allocator, const SimulatedSource& source) {
  check_counters_are_sums(allocator);
  CHECK(source.held() == allocator.statistics().reserved_bytes.all.current);
}

}  // namespace

TEST_CASE("A segment planned after a failure takes the place of the cache, and the failure no longer counts") {
  SimulatedSource source(64 * mib);
  CachingAllocator allocator(source, may_plan);
  const Block kept = allocator.allocate(3 * mib);
  allocator.begin_layout();
  const Block used = allocator.allocate(20 * mib);
  allocator.free(used);
  CHECK_THROWS_AS(allocator.allocate(30 * mib), OutOfMemory);  // the layout keeps the 20 MiB
  CHECK(allocator.statistics().num_ooms == 1);
  REQUIRE(allocator.may_plan_segment());
  const std::uint64_t before = allocator.fingerprint();
  REQUIRE(allocator.plan_segment(44 * mib));
  CHECK(allocator.fingerprint() != before);
  CHECK_FALSE(allocator.may_plan_segment());
  CHECK(allocator.statistics().num_ooms == 0);
  CHECK(allocator.statistics().reserved_bytes.all.current == 64 * mib);
  check_sums(allocator, source);
  const Block first = allocator.allocate_at(20 * mib, 0), second = allocator.allocate_at(24 * mib, 20 * mib);
  CHECK(static_cast<char*>(second.address) - static_cast<char*>(first.address) == 20 * mib);
  check_sums(allocator, source);
  allocator.free(first);
  // Others are not served from it.
  const Block other = allocator.allocate(2 * mib);
  CHECK(static_cast<char*>(other.address) - static_cast<char*>(kept.address) == 3 * mib);
  CHECK_THROWS_AS(allocator.allocate(18 * mib), OutOfMemory);
  check_sums(allocator, source);
  for (const Block& block : {second, other, kept}) allocator.free(block);
  allocator.release_cached();
  CHECK(source.held() == 0);
  check_sums(allocator, source);
  // It comes back with the next block, once what is cached has made room.
  allocator.begin_layout();
  allocator.free(allocator.allocate(25 * mib));
  allocator.begin_layout();
  const std::int64_t num_retries = allocator.statistics().num_alloc_retries;
  const Block again = allocator.allocate_at(kib, 43 * mib);
  CHECK(allocator.statistics().num_alloc_retries == num_retries + 1);
  CHECK(source.held() == 44 * mib);
  check_sums(allocator, source);
  allocator.free(again);
}

TEST_CASE("A segment that is refused leaves the allocator as it was but for its cache") {
  SimulatedSource source(64 * mib);
  CachingAllocator allocator(source, may_plan), forbidden(source);
  CHECK_FALSE(forbidden.may_plan_segment());
  const Block kept = allocator.allocate(11 * mib);
  allocator.begin_layout();
  allocator.free(allocator.allocate(40 * mib));
  CHECK_THROWS_AS(allocator.allocate(60 * mib), OutOfMemory);
  CHECK_FALSE(allocator.plan_segment(54 * mib));
  CHECK(allocator.statistics().num_ooms == 1);
  CHECK(allocator.may_plan_segment());
  CHECK(source.held() == 12 * mib);
  check_sums(allocator, source);
  CHECK(allocator.plan_segment(52 * mib));
  check_sums(allocator, source);
  allocator.free(kept);
}

TEST_CASE("Blocks of both kinds, in any order, keep every counter a sum") {
  SimulatedSource source(std::int64_t{1} << 50);
  CachingAllocator allocator(source, may_plan);
  CHECK_THROWS_AS(allocator.allocate(std::int64_t{2} << 50), OutOfMemory);
  constexpr std::int64_t num_places = 400, place_bytes = 64 * kib;
  REQUIRE(allocator.plan_segment(num_places * place_bytes));
  Random random(3);
  std::map<std::int32_t, Block> live;
  std::map<std::int64_t, Block> placed;
  for (int i = 0; i < 6000; ++i) {
    const std::int64_t place = random.below(num_places);
    if (const auto found = placed.find(place); found != placed.end()) {
      allocator.free(found->second);
      placed.erase(found);
    } else {
      const Block block = allocator.allocate_at(1 + random.below(place_bytes), place * place_bytes);
      CHECK(live.count(block.id) == 0);
      placed.emplace(place, block);
    }
    if (live.empty() || random.chance(50)) {
      const Block block = allocator.allocate(random_size(random));
      CHECK(live.emplace(block.id, block).second);
    } else {
      allocator.free(live.begin()->second);
      live.erase(live.begin());
    }
    if (i % 50 == 0) check_sums(allocator, source);
  }
  for (const auto& [id, block] : live) allocator.free(block);
  for (const auto& [place, block] : placed) allocator.free(block);
  allocator.release_cached();
  CHECK(source.held() == 0);
}

}  // namespace trainer::test
