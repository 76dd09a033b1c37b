#include "engine/memory/planned_allocator.h"

#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/memory/simulated_source.h"
#include "tests/memory/counter_sums.h"
#include "tests/memory/failing_source.h"
#include "tests/memory/heap_count.h"

using namespace trainer;
using trainer::test::FailingSource;

namespace {

constexpr std::int64_t mib = 1 << 20;

std::int64_t current(const PooledCounter& counter) { return counter.all.current; }

/// What must hold of every planned allocator at any time.
void check_counters(const PlannedAllocator& allocator, std::int64_t segment_bytes, bool is_held) {
  test::check_counters_are_sums(allocator);
  const MemoryStatistics& statistics = allocator.statistics();
  CHECK(current(statistics.segment) == (is_held ? 1 : 0));
  CHECK(current(statistics.reserved_bytes) == (is_held ? segment_bytes : 0));
  for (const NamedCounter& named : memory_counters) {
    const PooledCounter& counter = statistics.*named.counter;
    INFO(named.name);
    CHECK(counter.all == counter.large_pool);
    CHECK(counter.small_pool == Counter{});
    CHECK(counter.all.peak >= counter.all.current);
    CHECK(counter.all.allocated - counter.all.freed == counter.all.current);
  }
}

}  // namespace

TEST_CASE("a planned segment is acquired with the first block and given back when nothing is live") {
  FailingSource source(10 * mib);
  PlannedAllocator allocator(source, 5 * 512 - 1);
  CHECK(source.held() == 0);
  check_counters(allocator, 5 * 512, false);

  const Block first = allocator.allocate_at(1, 512);
  CHECK(source.held() == 5 * 512);
  CHECK(first.size == 512);
  CHECK(first.requested == 1);
  const Block second = allocator.allocate_at(513, 3 * 512);
  CHECK(second.size == 1024);
  CHECK(static_cast<char*>(second.address) - static_cast<char*>(first.address) == 2 * 512);
  check_counters(allocator, 5 * 512, true);
  CHECK(allocator.largest_free_block() == 512);

  allocator.release_cached();
  CHECK(source.held() == 5 * 512);
  allocator.free(first);
  allocator.free(second);
  CHECK(source.held() == 5 * 512);
  check_counters(allocator, 5 * 512, true);
  allocator.release_cached();
  CHECK(source.held() == 0);
  check_counters(allocator, 5 * 512, false);

  allocator.allocate_at(0, 4 * 512);  // nothing is one block
  CHECK(current(allocator.statistics().allocated_bytes) == 512);
  CHECK(source.num_calls() == 2);
  CHECK(source.num_wrong_releases() == 0);
}

TEST_CASE("a planned allocator gives its segment back when it goes") {
  FailingSource source(mib);
  {
    PlannedAllocator allocator(source, 1024);
    allocator.allocate_at(1024, 0);
  }
  CHECK(source.held() == 0);
  CHECK(source.num_wrong_releases() == 0);
}

TEST_CASE("a block in a place that is taken, not whole, or beyond the segment is a broken plan") {
  FailingSource source(mib);
  PlannedAllocator allocator(source, 4096);
  CHECK_THROWS_AS(allocator.allocate(512), InternalError);
  allocator.allocate_at(1024, 1024);
  for (const auto& [num_bytes, offset] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1024, 1024}, {512, 1536}, {513, 512}, {4096, 0}, {512, 4096}, {513, 3584}, {1, 100}, {1, -512}, {-1, 0}}) {
    INFO(num_bytes << " at " << offset);
    CHECK_THROWS_AS(allocator.allocate_at(num_bytes, offset), InternalError);
  }
  check_counters(allocator, 4096, true);
  allocator.allocate_at(1024, 0);
  allocator.allocate_at(2048, 2048);
  CHECK(allocator.largest_free_block() == 0);
  CHECK(source.num_calls() == 1);
}

TEST_CASE("where the source refuses the planned segment it is out of memory, and can be asked again") {
  FailingSource source(mib, {0});
  PlannedAllocator allocator(source, mib - 100);
  try {
    allocator.allocate_at(700, 512);
    FAIL("the source refused");
  } catch (const OutOfMemory& error) {
    const AllocationFailure& failure = error.failure();
    CHECK(failure.requested == 700);
    CHECK(failure.rounded == 1024);
    CHECK(failure.segment_bytes == mib);
    CHECK(failure.capacity == mib);
    CHECK(failure.largest_free_block == 0);
    CHECK(failure.statistics.num_ooms == 1);
    CHECK(current(failure.statistics.reserved_bytes) == 0);
  }
  check_counters(allocator, mib, false);
  CHECK(allocator.statistics().num_alloc_retries == 0);
  CHECK(allocator.allocate_at(700, 512).id == 0);

  FailingSource small(mib - 512);
  PlannedAllocator too_large(small, mib);
  CHECK_THROWS_AS(too_large.allocate_at(1, 0), OutOfMemory);
  CHECK(small.held() == 0);
}

TEST_CASE("counters, snapshot and addresses stay right through random blocks in places of their own") {
  constexpr std::int64_t num_places = 101;
  std::mt19937 random(7);
  FailingSource source(mib);
  SimulatedSource other_source(mib);
  PlannedAllocator allocator(source, num_places * 1024), other(other_source, num_places * 1024);
  std::map<std::int64_t, Block> live, other_live;
  const auto base = [&] { return static_cast<char*>(live.begin()->second.address) - live.begin()->first * 1024; };
  for (int i = 0; i < 2'000; ++i) {
    const std::int64_t place = static_cast<std::int64_t>(random() % num_places);
    if (const auto found = live.find(place); found != live.end()) {
      allocator.free(found->second);
      other.free(other_live[place]);
      live.erase(found);
    } else {
      const auto num_bytes = static_cast<std::int64_t>(1 + random() % 1024);
      live[place] = allocator.allocate_at(num_bytes, place * 1024);
      other_live[place] = other.allocate_at(num_bytes, place * 1024);
      CHECK(live[place].id == other_live[place].id);
      CHECK(static_cast<char*>(live[place].address) == base() + place * 1024);
    }
    if (i % 7 == 0) allocator.reset_peaks();
    if (i % 50 == 0) check_counters(allocator, num_places * 1024, true);
    CHECK(allocator.fingerprint() == other.fingerprint());
  }
  check_counters(allocator, num_places * 1024, true);
}

TEST_CASE("blocks of a planned segment come and go without the system heap") {
  SimulatedSource source(mib);
  PlannedAllocator allocator(source, mib);
  std::vector<Block> blocks(300);
  const auto come_and_go = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = allocator.allocate_at(1000, static_cast<std::int64_t>(i) * 1024);
    for (const Block& block : blocks) allocator.free(block);
  };
  come_and_go();
  const std::int64_t before = test::num_heap_allocations();
  come_and_go();
  CHECK(test::num_heap_allocations() == before);
}

TEST_CASE("planned allocators that hold the same blocks have the same fingerprint, others have not") {
  SimulatedSource source(10 * mib);
  PlannedAllocator first(source, 4096), second(source, 4096), longer(source, 8192);
  CHECK(first.fingerprint() == second.fingerprint());
  CHECK(first.fingerprint() != longer.fingerprint());
  const std::uint64_t empty = first.fingerprint();
  const Block low = first.allocate_at(100, 0);
  const Block high = first.allocate_at(600, 1024);
  second.allocate_at(600, 1024);
  CHECK(first.fingerprint() != second.fingerprint());
  second.allocate_at(100, 0);
  CHECK(first.fingerprint() == second.fingerprint());
  first.free(low);
  CHECK(first.fingerprint() != second.fingerprint());
  const Block other = first.allocate_at(101, 0);
  CHECK(first.fingerprint() != second.fingerprint());  // the same place, another request
  first.free(other);
  first.free(high);
  CHECK(first.fingerprint() != empty);  // the segment is held now
  first.release_cached();
  CHECK(first.fingerprint() == empty);
}

TEST_CASE("peaks of a planned allocator start anew at the values of the moment") {
  SimulatedSource source(mib);
  PlannedAllocator allocator(source, 8192);
  const Block first = allocator.allocate_at(4096, 0);
  const Block second = allocator.allocate_at(1000, 4096);
  allocator.free(first);
  CHECK(allocator.statistics().allocated_bytes.all.peak == 5120);
  allocator.reset_peaks();
  CHECK(allocator.statistics().allocated_bytes.all.peak == 1024);
  CHECK(allocator.statistics().requested_bytes.all.peak == 1000);
  CHECK(allocator.statistics().reserved_bytes.all.peak == 8192);
  allocator.free(second);
}
