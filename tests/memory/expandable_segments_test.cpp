#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_source.h"
#include "engine/memory/machine_memory.h"
#include "engine/memory/simulated_source.h"
#include "tests/memory/failing_source.h"
#include "tests/memory/heap_count.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {

const CachingAllocatorOptions with_expandable = {.expandable_segments = true};

/// Mapped parts as "S 512l 1536f": pool, then KiB of the live and free blocks.
std::string layout_of_pages(const Allocator& allocator) {
  std::string text;
  for (const SegmentSnapshot& part : allocator.snapshot().segments) {
    if (!text.empty()) text += " | ";
    text += part.small_pool ? "S" : "L";
    for (const BlockSnapshot& block : part.blocks)
      text += " " + std::to_string(block.size / kib) + (block.id >= 0 ? "l" : "f");
  }
  return text;
}

std::int64_t mapped_bytes(const Allocator& allocator) { return allocator.statistics().reserved_bytes.all.current; }

/// As a number: the addresses of most sources here point to nothing.
std::int64_t place(const Block& block) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(block.address));
}

char* address(const Block& block) { return static_cast<char*>(block.address); }

}  // namespace

TEST_CASE("An expandable segment grows by the pages that are missing, of 2 MiB for small and 20 MiB for large blocks") {
  FailingSource source(gib);
  CachingAllocator allocator(source, with_expandable);
  const Block first = allocator.allocate(mib);
  CHECK(layout_of_pages(allocator) == "S 1024l 1024f");
  const Block second = allocator.allocate(mib);
  const Block third = allocator.allocate(512 * kib);
  CHECK(layout_of_pages(allocator) == "S 1024l 1024l 512l 1536f");
  CHECK(place(third) == place(first) + 2 * mib);

  const Block large = allocator.allocate(15 * mib);
  CHECK(layout_of_pages(allocator) == "S 1024l 1024l 512l 1536f | L 15360l 5120f");
  const Block larger = allocator.allocate(30 * mib);  // 5 MiB are there, so 25 are missing
  CHECK(layout_of_pages(allocator) == "S 1024l 1024l 512l 1536f | L 15360l 30720l 15360f");
  CHECK(place(larger) == place(large) + 15 * mib);
  CHECK(mapped_bytes(allocator) == 4 * mib + 60 * mib);
  CHECK(source.num_ranges() == 2);
  CHECK(place(second) == place(first) + mib);
}

TEST_CASE("Free blocks of an expandable segment merge across pages, and large ones are split down to 512 bytes") {
  FailingSource source(gib);
  CachingAllocator allocator(source, with_expandable);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(10 * mib));
  REQUIRE(layout_of_pages(allocator) == "L 10240l 10240l 10240l 10240l");
  allocator.free(blocks[1]);
  allocator.free(blocks[2]);
  CHECK(layout_of_pages(allocator) == "L 10240l 20480f 10240l");
  const Block across = allocator.allocate(20 * mib - 512 * kib);
  CHECK(layout_of_pages(allocator) == "L 10240l 19968l 512f 10240l");
  CHECK(across.size == 20 * mib - 512 * kib);
  allocator.free(across);
  CHECK(allocator.allocate(20 * mib - 512).size == 20 * mib - 512);
}

TEST_CASE("A block that can grow is left to requests that need it") {
  FailingSource source(gib);
  CachingAllocator allocator(source, with_expandable);
  const Block hole = allocator.allocate(14 * mib);
  const Block keeper = allocator.allocate(2 * mib);  // leaves 4 MiB at the end, which can grow
  allocator.free(hole);
  REQUIRE(layout_of_pages(allocator) == "L 14336f 2048l 4096f");
  const Block block = allocator.allocate(3 * mib);
  CHECK(place(block) == place(hole));  // although 4 MiB would be the tighter fit
  CHECK(place(keeper) == place(hole) + 14 * mib);
}

TEST_CASE("Giving the cache back unmaps wholly free pages, also between live ones, and gaps are filled first") {
  FailingSource source(gib);
  CachingAllocator allocator(source, with_expandable);
  const Block low = allocator.allocate(25 * mib);
  const Block middle = allocator.allocate(50 * mib);
  const Block high = allocator.allocate(5 * mib);
  REQUIRE(layout_of_pages(allocator) == "L 25600l 51200l 5120l");
  REQUIRE(mapped_bytes(allocator) == 80 * mib);
  allocator.free(middle);
  allocator.release_cached();
  // Of the middle's 25 to 75 MiB only the page of 40 to 60 MiB is free as a whole.
  CHECK(layout_of_pages(allocator) == "L 25600l 15360f | L 15360f 5120l");
  CHECK(mapped_bytes(allocator) == 60 * mib);
  CHECK(source.held() == 60 * mib);
  CHECK(allocator.largest_free_block() == 15 * mib);
  const Block again = allocator.allocate(48 * mib);
  CHECK(place(again) == place(middle));
  CHECK(layout_of_pages(allocator) == "L 25600l 49152l 2048f 5120l");
  CHECK(mapped_bytes(allocator) == 80 * mib);
  allocator.free(again);
  allocator.free(low);
  allocator.free(high);
  allocator.release_cached();
  CHECK(mapped_bytes(allocator) == 0);
  CHECK(source.num_ranges() == 0);
}

TEST_CASE("Under memory pressure free pages are unmapped and serve a request elsewhere") {
  FailingSource source(100 * mib);
  CachingAllocator allocator(source, with_expandable);
  const Block first = allocator.allocate(40 * mib);
  const Block second = allocator.allocate(20 * mib);
  allocator.free(first);
  const Block large = allocator.allocate(55 * mib);  // 40 MiB are free and 40 not mapped, but not side by side
  CHECK(place(large) == place(second) + 20 * mib);
  CHECK(mapped_bytes(allocator) == 80 * mib);
  CHECK(allocator.statistics().num_alloc_retries == 1);
  CHECK(allocator.statistics().num_ooms == 0);
  CHECK(layout_of_pages(allocator) == "L 20480l 56320l 5120f");
}

TEST_CASE("A pool gets a second range only where the first has no room long enough") {
  FailingSource source(200 * mib);
  CachingAllocator allocator(source, with_expandable);  // ranges of 240 MiB
  std::vector<Block> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(allocator.allocate(20 * mib));
  for (int i = 0; i < 10; ++i)
    if (i != 4) allocator.free(blocks[i]);
  REQUIRE(layout_of_pages(allocator) == "L 81920f 20480l 102400f");
  const Block long_one = allocator.allocate(160 * mib);
  CHECK(source.num_ranges() == 2);
  CHECK(mapped_bytes(allocator) == 180 * mib);
  allocator.free(long_one);
  CHECK(place(allocator.allocate(100 * mib)) == place(long_one));
}

TEST_CASE("Expandable segments count as in PyTorch: no segments, no inactive splits, reserved is what is mapped") {
  FailingSource source(gib);
  CachingAllocator allocator(source, with_expandable);
  const Block kept = allocator.allocate(3 * mib);
  allocator.free(allocator.allocate(7 * mib));
  const MemoryStatistics& statistics = allocator.statistics();
  CHECK(statistics.segment == PooledCounter{});
  CHECK(statistics.inactive_split == PooledCounter{});
  CHECK(statistics.inactive_split_bytes == PooledCounter{});
  CHECK(statistics.reserved_bytes.large_pool.current == 20 * mib);
  CHECK(statistics.allocated_bytes.all.current == 3 * mib);
  CHECK(statistics.allocated_bytes.all.peak == 10 * mib);
  CHECK(kept.size == 3 * mib);
}

TEST_CASE("Out of memory with expandable segments tells how much could not be mapped, and leaves what there was") {
  FailingSource source(70 * mib);
  CachingAllocator allocator(source, with_expandable);
  const Block kept = allocator.allocate(30 * mib);
  const std::string before = layout_of_pages(allocator);
  const std::uint64_t fingerprint = allocator.fingerprint();
  const auto requested =
      GENERATE(as<std::int64_t>(), 40 * mib, 75 * mib, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max());
  try {
    allocator.allocate(requested);
    FAIL("it fits");
  } catch (const OutOfMemory& error) {
    const AllocationFailure& failure = error.failure();
    CHECK(failure.requested == requested);
    CHECK(failure.segment_bytes > failure.capacity - failure.statistics.reserved_bytes.all.current);
    if (requested == 40 * mib) CHECK(failure.segment_bytes == 40 * mib);  // 10 of the second page are there
  }
  CHECK(layout_of_pages(allocator) == before);
  CHECK(allocator.fingerprint() == fingerprint);
  CHECK(source.num_ranges() == 1);
  CHECK(place(allocator.allocate(10 * mib)) == place(kept) + 30 * mib);
}

TEST_CASE("A device that breaks while pages are mapped is not out of memory, and nothing stays mapped") {
  class BreakingSource final : public MemorySource {
   public:
    void* acquire(std::int64_t) override { return nullptr; }
    void release(void*, std::int64_t) noexcept override {}
    std::int64_t granule_bytes() const override { return 2 * mib; }
    void* reserve_range(std::int64_t) override { return reinterpret_cast<void*>(std::uintptr_t{1} << 40); }
    void release_range(void*, std::int64_t) noexcept override { ++num_released; }
    bool map(void*, std::int64_t num_bytes) override {
      if (++num_maps == 3) throw DeviceError("the device is gone");
      mapped += num_bytes;
      return true;
    }
    void unmap(void*, std::int64_t num_bytes) noexcept override { mapped -= num_bytes; }
    std::int64_t capacity() const override { return gib; }
    void set_capacity(std::int64_t) override {}
    std::int64_t held() const override { return mapped; }
    int num_maps = 0, num_released = 0;
    std::int64_t mapped = 0;
  } source;
  CachingAllocator allocator(source, with_expandable);
  CHECK_THROWS_AS(allocator.allocate(100 * mib), DeviceError);
  CHECK(source.mapped == 0);
  CHECK(source.num_released == 1);
  CHECK(allocator.statistics() == MemoryStatistics{});
  CHECK(allocator.snapshot().segments.empty());
}

TEST_CASE("Expandable segments over a source without address ranges are refused with what to change") {
  class PlainSource final : public MemorySource {
   public:
    void* acquire(std::int64_t) override { return nullptr; }
    void release(void*, std::int64_t) noexcept override {}
    std::int64_t capacity() const override { return gib; }
    void set_capacity(std::int64_t) override {}
    std::int64_t held() const override { return 0; }
  } source;
  CHECK_THROWS_WITH(CachingAllocator(source, with_expandable), Catch::Contains("memory.expandable_segments"));
}

TEST_CASE("The same trace gives the same blocks over simulated and over host memory, and blocks keep their bytes") {
  HostSource host(300 * mib);
  SimulatedSource simulated(300 * mib);
  CachingAllocator first(host, with_expandable), second(simulated, with_expandable);
  struct Pair {
    Block real, planned;
    int value;
  };
  std::vector<Pair> live;
  const auto holds = [](const Pair& pair) {
    for (const std::int64_t i : {std::int64_t{0}, pair.real.requested / 2, pair.real.requested - 1})
      if (address(pair.real)[i] != static_cast<char>(pair.value)) return false;
    return true;
  };
  int num_failures = 0;
  for (std::int64_t i = 0; i < 400; ++i) {
    const std::int64_t requested = (i * 7919) % 97 * (i % 2 == 0 ? 350 : 9) * kib + 1;
    try {
      const Block real = first.allocate(requested);
      const Block planned = second.allocate(requested);
      REQUIRE(real.id == planned.id);
      std::memset(real.address, static_cast<int>(i % 100), static_cast<std::size_t>(real.requested));
      live.push_back({real, planned, static_cast<int>(i % 100)});
    } catch (const OutOfMemory&) {
      ++num_failures;
      CHECK_THROWS_AS(second.allocate(requested), OutOfMemory);
    }
    if (i % 3 != 0 && !live.empty()) {
      const auto position = static_cast<std::size_t>(i * 31) % live.size();
      CHECK(holds(live[position]));
      first.free(live[position].real);
      second.free(live[position].planned);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(position));
    }
    REQUIRE(first.fingerprint() == second.fingerprint());
  }
  CHECK(first.statistics() == second.statistics());
  CHECK(num_failures > 0);
  CHECK(first.statistics().num_alloc_retries > 0);
  for (const Pair& pair : live) CHECK(holds(pair));
}

TEST_CASE("What is unmapped leaves the process, and what stays keeps its address and its bytes") {
  constexpr std::int64_t slack = 8 * mib;
  HostSource source(gib);
  CachingAllocator allocator(source, with_expandable);
  const std::int64_t start = resident_bytes();
  std::vector<Block> blocks;
  for (int i = 0; i < 5; ++i) {
    blocks.push_back(allocator.allocate(20 * mib));
    std::memset(blocks.back().address, i + 1, 20 * mib);
  }
  CHECK(resident_bytes() - start > 100 * mib - slack);
  for (const int i : {1, 2, 3}) allocator.free(blocks[i]);
  allocator.release_cached();
  CHECK(resident_bytes() - start < 40 * mib + slack);
  CHECK(source.held() == 40 * mib);
  for (const int i : {0, 4}) {
    CHECK(address(blocks[i])[0] == i + 1);
    CHECK(address(blocks[i])[20 * mib - 1] == i + 1);
  }
  const Block again = allocator.allocate(60 * mib);
  CHECK(place(again) == place(blocks[1]));
  CHECK(address(again)[0] == 0);  // mapped anew
  CHECK(address(again)[60 * mib - 1] == 0);
  std::memset(again.address, 9, 60 * mib);
  CHECK(address(blocks[0])[20 * mib - 1] == 1);
  CHECK(address(blocks[4])[0] == 5);
}

TEST_CASE("A range of host addresses takes no memory until it is mapped, and is zeroed when it is") {
  HostSource source(64 * mib);
  const std::int64_t start = resident_bytes();
  void* range = source.reserve_range(gib);
  CHECK(reinterpret_cast<std::uintptr_t>(range) % (2 * mib) == 0);
  CHECK(source.held() == 0);
  char* part = static_cast<char*>(range) + 512 * mib;
  REQUIRE(source.map(part, 64 * mib));
  CHECK_FALSE(source.map(range, 2 * mib));  // the capacity is spent
  CHECK(part[0] == 0);
  std::memset(part, 1, 64 * mib);
  CHECK(resident_bytes() - start > 56 * mib);
  source.unmap(part, 32 * mib);
  CHECK(resident_bytes() - start < 40 * mib);
  CHECK(part[32 * mib] == 1);
  REQUIRE(source.map(part, 2 * mib));
  CHECK(part[0] == 0);
  source.unmap(part, 2 * mib);
  source.unmap(part + 32 * mib, 32 * mib);
  CHECK(source.held() == 0);
  source.release_range(range, gib);
  CHECK(resident_bytes() - start < 8 * mib);
  CHECK_THROWS_AS(source.reserve_range(std::int64_t{1} << 60), DeviceError);
}

TEST_CASE("With expandable segments a steady state and giving the cache back do not touch the system heap") {
  SimulatedSource source(64 * gib);
  CachingAllocator allocator(source, with_expandable);
  std::vector<Block> blocks(1000);
  const auto step = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = allocator.allocate(static_cast<std::int64_t>(i) * 7000 % (20 * mib));
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (i % 9 != 0) allocator.free(blocks[i]);
    allocator.release_cached();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (i % 9 == 0) allocator.free(blocks[i]);
  };
  step();
  const std::int64_t before = num_heap_allocations();
  for (int i = 0; i < 10; ++i) step();
  const std::int64_t after = num_heap_allocations();
  CHECK(after == before);
  const std::int64_t before_release = num_heap_allocations();
  allocator.release_cached();
  CHECK(num_heap_allocations() == before_release);
  CHECK(mapped_bytes(allocator) == 0);
}

}  // namespace trainer::test
