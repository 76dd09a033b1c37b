#include "engine/memory/caching_allocator.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/simulated_source.h"
#include "tests/memory/failing_source.h"
#include "tests/memory/heap_count.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {

/// Segments as "S2048: 512l 2047.5f": pool, then KiB of the segment and of its live and free blocks.
std::string layout(const Allocator& allocator) {
  const auto kibibytes = [](std::int64_t num_bytes) {
    return std::to_string(num_bytes / kib) + (num_bytes % kib == 512 ? ".5" : "");
  };
  std::string text;
  for (const SegmentSnapshot& segment : allocator.snapshot().segments) {
    if (!text.empty()) text += " | ";
    text += (segment.small_pool ? "S" : "L") + kibibytes(segment.size) + ":";
    for (const BlockSnapshot& block : segment.blocks) text += " " + kibibytes(block.size) + (block.id >= 0 ? "l" : "f");
  }
  return text;
}

std::int64_t reserved(const Allocator& allocator) { return allocator.statistics().reserved_bytes.all.current; }
std::int64_t allocated(const Allocator& allocator) { return allocator.statistics().allocated_bytes.all.current; }

}  // namespace

TEST_CASE("Requests are rounded up to 512 bytes, and nothing is served as one block") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  const auto [requested, size] = GENERATE(table<std::int64_t, std::int64_t>(
      {{0, 512}, {1, 512}, {511, 512}, {512, 512}, {513, 1024}, {4000, 4096}, {mib, mib}, {mib + 1, mib + 512}}));
  const Block block = allocator.allocate(requested);
  CHECK(block.requested == requested);
  CHECK(block.size == size);
  CHECK(block.address != nullptr);
  CHECK(allocator.statistics().requested_bytes.all.current == requested);
  CHECK(allocated(allocator) == size);
}

TEST_CASE("A segment has 2 MiB up to 1 MiB, 20 MiB below 10 MiB, else the request rounded up to 2 MiB") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  const auto [requested, expected] = GENERATE(table<std::int64_t, std::string>({
      {1, "S2048: 0.5l 2047.5f"},
      {mib, "S2048: 1024l 1024f"},
      {mib + 1, "L20480: 1024.5l 19455.5f"},
      {mib + mib / 2, "L20480: 1536l 18944f"},
      {10 * mib - 512, "L20480: 10239.5l 10240.5f"},
      {10 * mib, "L10240: 10240l"},
      {10 * mib + 1, "L12288: 10240.5l 2047.5f"},
      {11 * mib, "L12288: 12288l"},
      {11 * mib - 512, "L12288: 11263.5l 1024.5f"},
      {21 * mib, "L22528: 22528l"},
  }));
  allocator.allocate(requested);
  CHECK(layout(allocator) == expected);
}

TEST_CASE("A large block is split only if more than 1 MiB remains, a small one if 512 bytes remain") {
  FailingSource source(gib);
  CachingAllocator allocator(source);

  const Block whole = allocator.allocate(19 * mib);  // a segment of 20 MiB of which 1 MiB remains
  CHECK(whole.size == 20 * mib);
  allocator.free(whole);
  CHECK(allocator.allocate(19 * mib - 512).size == 19 * mib - 512);
  CHECK(layout(allocator) == "L20480: 19455.5l 1024.5f");

  const Block small = allocator.allocate(mib);
  const Block rest = allocator.allocate(mib - 512);
  CHECK(rest.size == mib - 512);
  CHECK(allocator.allocate(512).size == 512);
  CHECK(layout(allocator) == "L20480: 19455.5l 1024.5f | S2048: 1024l 1023.5l 0.5l");
  CHECK(small.size == mib);
}

TEST_CASE("A freed block merges with its free neighbours") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(256 * kib));
  REQUIRE(layout(allocator) == "S2048: 256l 256l 256l 256l 1024f");
  allocator.free(blocks[0]);
  CHECK(layout(allocator) == "S2048: 256f 256l 256l 256l 1024f");
  allocator.free(blocks[2]);
  CHECK(layout(allocator) == "S2048: 256f 256l 256f 256l 1024f");
  CHECK(allocator.statistics().inactive_split.all.current == 3);
  CHECK(allocator.statistics().inactive_split_bytes.all.current == 1536 * kib);
  allocator.free(blocks[1]);
  CHECK(layout(allocator) == "S2048: 768f 256l 1024f");
  allocator.free(blocks[3]);
  CHECK(layout(allocator) == "S2048: 2048f");
  CHECK(allocator.statistics().inactive_split.all.current == 0);
  CHECK(allocator.statistics().inactive_split_bytes.all.current == 0);
  CHECK(allocated(allocator) == 0);
  CHECK(reserved(allocator) == 2 * mib);
}

TEST_CASE("The best fit is the smallest block, then that of the older segment, then that of the lower offset") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  std::vector<Block> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(256 * kib));
  REQUIRE(allocator.snapshot().segments.size() == 2);
  // The source's addresses fall, so the older segment has the higher one.
  REQUIRE(allocator.snapshot().segments[0].address > allocator.snapshot().segments[1].address);

  allocator.free(blocks[9]);  // one in the second segment
  allocator.free(blocks[1]);  // one in the first
  allocator.free(blocks[5]);  // another, higher up
  allocator.free(blocks[12]);
  allocator.free(blocks[13]);  // and a larger one
  const auto place = [&](const Block& block) { return block.address; };
  CHECK(place(allocator.allocate(200 * kib)) == blocks[1].address);  // leaves 56 KiB
  CHECK(place(allocator.allocate(256 * kib)) == blocks[5].address);
  CHECK(place(allocator.allocate(256 * kib)) == blocks[9].address);
  CHECK(place(allocator.allocate(50 * kib)) ==
        static_cast<void*>(reinterpret_cast<char*>(blocks[1].address) + 200 * kib));
  CHECK(place(allocator.allocate(300 * kib)) == blocks[12].address);
}

TEST_CASE("Small requests never take from the large pool, nor large ones from the small pool") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  allocator.free(allocator.allocate(15 * mib));
  const Block small = allocator.allocate(mib);
  CHECK(layout(allocator) == "L16384: 16384f | S2048: 1024l 1024f");
  allocator.free(small);
  allocator.allocate(mib + 1);
  CHECK(layout(allocator) == "L16384: 1024.5l 15359.5f | S2048: 2048f");
}

TEST_CASE("When the source refuses, cached segments are given back and the request is retried") {
  FailingSource source(40 * mib);
  CachingAllocator allocator(source);
  const Block kept = allocator.allocate(5 * mib);     // 20 MiB reserved
  const Block cached = allocator.allocate(16 * mib);  // 36 MiB reserved
  allocator.free(cached);
  CHECK(allocator.statistics().num_alloc_retries == 0);
  const Block block = allocator.allocate(18 * mib);  // fits only without the cached 16 MiB
  CHECK(block.size == 18 * mib);
  CHECK(layout(allocator) == "L20480: 5120l 15360f | L18432: 18432l");
  CHECK(allocator.statistics().num_alloc_retries == 1);
  CHECK(allocator.statistics().num_ooms == 0);
  CHECK(allocator.statistics().reserved_bytes.all.peak == 38 * mib);
  CHECK(allocator.statistics().reserved_bytes.all.freed == 16 * mib);
  CHECK(kept.size == 5 * mib);
}

TEST_CASE("Out of memory carries what the allocator knew, and the allocator can be used on") {
  FailingSource source(30 * mib);
  CachingAllocator allocator(source);
  const Block held = allocator.allocate(4 * mib);
  const std::string before = layout(allocator);
  try {
    allocator.allocate(16 * mib + 100);
    FAIL("it fits");
  } catch (const OutOfMemory& error) {
    const AllocationFailure& failure = error.failure();
    CHECK(failure.requested == 16 * mib + 100);
    CHECK(failure.rounded == 16 * mib + 512);
    CHECK(failure.segment_bytes == 18 * mib);
    CHECK(failure.capacity == 30 * mib);
    CHECK(failure.largest_free_block == 16 * mib);
    CHECK(failure.statistics.reserved_bytes.all.current == 20 * mib);
    CHECK(failure.statistics.allocated_bytes.all.current == 4 * mib);
    CHECK(failure.statistics.num_ooms == 1);
    CHECK(failure.statistics.num_alloc_retries == 1);
    CHECK(error.exit_code() == ExitCode::out_of_memory);
    CHECK(std::string(error.what()) ==
          "out of memory: tried to allocate 18.00 MiB with 20.00 MiB of 30.00 MiB reserved");
  }
  CHECK(layout(allocator) == before);
  const Block next = allocator.allocate(16 * mib);
  CHECK(layout(allocator) == "L20480: 4096l 16384l");
  allocator.free(next);
  allocator.free(held);
  CHECK(allocator.allocate(30 * mib).size == 30 * mib);
}

TEST_CASE("A request no machine can serve is out of memory, not an overflow") {
  SimulatedSource source(64 * gib);
  CachingAllocator allocator(source);
  const std::int64_t requested =
      GENERATE(std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max() - 511,
               std::numeric_limits<std::int64_t>::max() - 1, std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(allocator.allocate(requested), OutOfMemory);
  CHECK(reserved(allocator) == 0);
}

TEST_CASE("200 failures leave nothing behind") {
  FailingSource source(64 * mib);
  CachingAllocator allocator(source);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks;
    try {
      for (int i = 1;; ++i) blocks.push_back(allocator.allocate(i * 700 * kib));
    } catch (const OutOfMemory&) {
    }
    CHECK(blocks.size() > 3);
    for (const Block& block : blocks) allocator.free(block);
    allocator.release_cached();
    CHECK(allocated(allocator) == 0);
    CHECK(reserved(allocator) == 0);
    CHECK(source.held() == 0);
  }
  CHECK(allocator.statistics().num_ooms == 200);
}

TEST_CASE("A broken device is not out of memory, and does not damage the allocator") {
  class BrokenSource final : public MemorySource {
   public:
    void* acquire(std::int64_t) override { throw DeviceError("the device is gone"); }
    void release(void*, std::int64_t) noexcept override {}
    std::int64_t capacity() const override { return gib; }
    void set_capacity(std::int64_t) override {}
    std::int64_t held() const override { return 0; }
  } source;
  CachingAllocator allocator(source);
  CHECK_THROWS_AS(allocator.allocate(1), DeviceError);
  CHECK(allocator.statistics() == MemoryStatistics{});
  CHECK(allocator.snapshot().segments.empty());
}

TEST_CASE("The destructor gives everything back, live or not") {
  FailingSource source(gib);
  {
    CachingAllocator allocator(source);
    allocator.allocate(100);
    allocator.free(allocator.allocate(12 * mib));
    allocator.allocate(30 * mib);
    CHECK(source.held() == (2 + 12 + 30) * mib);
  }
  CHECK(source.held() == 0);
  CHECK(source.num_wrong_releases() == 0);
}

TEST_CASE("Peaks are the highest since they were reset; totals go on") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  const Block first = allocator.allocate(12 * mib);
  allocator.free(allocator.allocate(30 * mib));
  const PooledCounter& counter = allocator.statistics().allocated_bytes;
  CHECK(counter.all.peak == 42 * mib);
  CHECK(counter.large_pool.peak == 42 * mib);
  CHECK(counter.small_pool.peak == 0);
  allocator.reset_peaks();
  CHECK(counter.all.peak == 12 * mib);
  CHECK(allocator.statistics().reserved_bytes.all.peak == 42 * mib);
  CHECK(counter.all.allocated == 42 * mib);
  CHECK(counter.all.freed == 30 * mib);
  allocator.free(first);
  CHECK(counter.all.peak == 12 * mib);
  allocator.release_cached();
  allocator.reset_peaks();
  CHECK(allocator.statistics().reserved_bytes.all.peak == 0);
}

TEST_CASE("Blocks of max_split_bytes and more are never split, nor used for smaller requests") {
  FailingSource source(140 * mib);
  CachingAllocator allocator(source, {.max_split_bytes = 32 * mib});
  allocator.free(allocator.allocate(60 * mib));
  const Block near = allocator.allocate(41 * mib);  // 19 MiB less than the cached block
  CHECK(near.size == 60 * mib);
  allocator.free(near);
  const Block far = allocator.allocate(40 * mib);  // 20 MiB less
  CHECK(far.size == 40 * mib);
  const Block below = allocator.allocate(31 * mib);
  CHECK(layout(allocator) == "L61440: 61440f | L40960: 40960l | L32768: 32768l");
  CHECK(below.size == 32 * mib);  // only 1 MiB would remain

  // The cached 60 MiB suffice for what is missing: only they are given back, which is not a retry.
  allocator.free(allocator.allocate(5 * mib));
  CHECK(layout(allocator) == "L40960: 40960l | L32768: 32768l | L20480: 20480f");
  CHECK(allocator.statistics().num_alloc_retries == 0);
}

TEST_CASE("The same trace gives the same blocks over a source with other addresses") {
  FailingSource falling(gib);
  SimulatedSource rising(gib);
  CachingAllocator first(falling), second(rising);
  std::vector<Block> a, b;
  for (std::int64_t i = 0; i < 500; ++i) {
    a.push_back(first.allocate((i * 7919) % 97 * 20 * kib));
    b.push_back(second.allocate((i * 7919) % 97 * 20 * kib));
    REQUIRE(a.back().id == b.back().id);
    if (i % 3 != 0) {
      const auto position = static_cast<std::size_t>(i * 31 % static_cast<std::int64_t>(a.size()));
      first.free(a[position]);
      second.free(b[position]);
      a.erase(a.begin() + static_cast<std::ptrdiff_t>(position));
      b.erase(b.begin() + static_cast<std::ptrdiff_t>(position));
    }
    REQUIRE(first.fingerprint() == second.fingerprint());
  }
  CHECK(first.statistics() == second.statistics());
  CHECK(layout(first) == layout(second));
}

TEST_CASE("A step that repeats leaves an equal fingerprint") {
  SimulatedSource source(gib);
  CachingAllocator allocator(source);
  std::vector<std::uint64_t> fingerprints;
  for (int step = 0; step < 4; ++step) {
    std::vector<Block> blocks;
    for (std::int64_t i = 1; i < 40; ++i) blocks.push_back(allocator.allocate(i * i * 3000));
    for (const Block& block : blocks) allocator.free(block);
    fingerprints.push_back(allocator.fingerprint());
  }
  CHECK(fingerprints[1] == fingerprints[2]);
  CHECK(fingerprints[2] == fingerprints[3]);
  const Block one = allocator.allocate(1);
  CHECK(allocator.fingerprint() != fingerprints[3]);
  allocator.free(one);
  CHECK(allocator.fingerprint() == fingerprints[3]);
  allocator.release_cached();
  CHECK(allocator.fingerprint() != fingerprints[3]);
}

TEST_CASE("In a steady state neither allocate nor free touches the system heap") {
  SimulatedSource source(64 * gib);
  CachingAllocator allocator(source);
  std::vector<Block> blocks(1000);
  const auto step = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = allocator.allocate(static_cast<std::int64_t>(i) * 7000 % (20 * mib));
      if (i % 5 == 4) allocator.free(blocks[i - 2]);
    }
    allocator.reset_peaks();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (i % 5 != 2) allocator.free(blocks[i]);
  };
  step();
  const std::int64_t before = num_heap_allocations();
  for (int i = 0; i < 10; ++i) step();
  const std::int64_t after = num_heap_allocations();
  CHECK(after == before);
  CHECK(before > 0);
  // Giving the cache back is no exception.
  const std::int64_t before_release = num_heap_allocations();
  allocator.release_cached();
  CHECK(num_heap_allocations() == before_release);
}

TEST_CASE("free does not touch the system heap even the first time") {
  SimulatedSource source(64 * gib);
  CachingAllocator allocator(source);
  std::vector<Block> blocks;
  for (std::int64_t i = 0; i < 2000; ++i) blocks.push_back(allocator.allocate(i % 2 == 0 ? 100 * kib : 2 * mib));
  const std::int64_t before = num_heap_allocations();
  for (std::size_t i = 0; i < blocks.size(); i += 3) allocator.free(blocks[i]);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (i % 3 != 0) allocator.free(blocks[i]);
  const std::int64_t after = num_heap_allocations();
  CHECK(after == before);
  CHECK(allocated(allocator) == 0);
}

TEST_CASE("Fragmentation is the share of cached memory outside the largest free block") {
  FailingSource source(gib);
  CachingAllocator allocator(source);
  const auto figure = [&] { return fragmentation(allocator.statistics(), allocator.largest_free_block()); };
  CHECK(figure() == 0.0);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(512 * kib));
  CHECK(figure() == 0.0);
  allocator.free(blocks[0]);
  CHECK(figure() == 0.0);
  allocator.free(blocks[2]);
  CHECK(figure() == 0.5);
  allocator.free(blocks[3]);  // 512 KiB and 1 MiB
  CHECK(figure() == Approx(1.0 / 3.0));
}

TEST_CASE("what a layout has used is given back only in the next one") {
  for (const bool expandable : {false, true}) {
    INFO("expandable " << expandable);
    const std::int64_t capacity = std::int64_t{64} << 20;
    const std::int64_t most = std::int64_t{40} << 20;
    SimulatedSource source(capacity);
    CachingAllocator allocator(source, {.expandable_segments = expandable});
    const auto is_served = [&](std::int64_t num_bytes) {
      try {
        allocator.free(allocator.allocate(num_bytes));
        return true;
      } catch (const OutOfMemory&) {
        return false;
      }
    };
    allocator.begin_layout();
    // Small blocks come from another pool, so that the large pool's pages must be given back for them.
    const std::int64_t small = 512 * 1024;
    const auto fill_with_small = [&] {
      std::vector<Block> blocks;
      bool served = true;
      try {
        for (int i = 0; i < 60; ++i) blocks.push_back(allocator.allocate(small));
      } catch (const OutOfMemory&) {
        served = false;
      }
      for (const Block& block : blocks) allocator.free(block);
      return served;
    };
    REQUIRE(is_served(most));
    CHECK(is_served(most));
    CHECK_FALSE(fill_with_small());
    CHECK(allocator.statistics().reserved_bytes.large_pool.current >= most);
    allocator.begin_layout();
    CHECK(fill_with_small());
    CHECK(allocator.statistics().reserved_bytes.large_pool.current == 0);
    // The small pool is in use now; without work to come everything free may go.
    CHECK_FALSE(is_served(most));
    allocator.release_cached();
    CHECK(allocator.statistics().reserved_bytes.all.current == 0);
    CHECK(is_served(most));
  }
}

}  // namespace trainer::test
