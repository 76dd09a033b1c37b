#include "engine/memory/host_source.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/machine_memory.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {
/// What the kernel's count may be late by.
constexpr std::int64_t slack = 8 * mib;
}  // namespace

TEST_CASE("Host memory becomes resident when it is touched, and leaves when it is released") {
  HostSource source(256 * mib);
  const std::int64_t start = resident_bytes();
  REQUIRE(start > 0);
  void* address = source.acquire(128 * mib);
  REQUIRE(address != nullptr);
  CHECK(resident_bytes() - start < slack);
  std::memset(address, 1, 64 * mib);
  CHECK(resident_bytes() - start > 64 * mib - slack);
  CHECK(resident_bytes() - start < 64 * mib + slack);
  std::memset(address, 1, 128 * mib);
  CHECK(resident_bytes() - start > 128 * mib - slack);
  CHECK(resident_bytes() - start < 128 * mib + slack);
  source.release(address, 128 * mib);
  CHECK(resident_bytes() - start < slack);
}

TEST_CASE("Host segments are zeroed, and aligned to 2 MiB from that size on") {
  HostSource source(256 * mib);
  for (const std::int64_t num_bytes : {std::int64_t{512}, mib, 2 * mib, 2 * mib + 512, 20 * mib}) {
    auto* address = static_cast<unsigned char*>(source.acquire(num_bytes));
    REQUIRE(address != nullptr);
    const std::uintptr_t alignment = num_bytes >= 2 * mib ? 2 * mib : 512;
    CHECK(reinterpret_cast<std::uintptr_t>(address) % alignment == 0);
    CHECK(address[0] == 0);
    CHECK(address[num_bytes - 1] == 0);
    std::memset(address, 255, static_cast<std::size_t>(num_bytes));
    source.release(address, num_bytes);
  }
  CHECK(source.held() == 0);
}

TEST_CASE("The host source refuses beyond its capacity, and what the kernel does not have") {
  HostSource source(10 * mib);
  void* first = source.acquire(8 * mib);
  REQUIRE(first != nullptr);
  CHECK(source.held() == 8 * mib);
  CHECK(source.acquire(2 * mib + 1) == nullptr);
  source.release(first, 8 * mib);
  void* all = source.acquire(10 * mib);
  CHECK(all != nullptr);
  source.release(all, 10 * mib);

  HostSource endless(std::numeric_limits<std::int64_t>::max());
  CHECK(endless.acquire(std::int64_t{1} << 60) == nullptr);
  CHECK(endless.acquire(std::numeric_limits<std::int64_t>::max()) == nullptr);
  CHECK(endless.held() == 0);
}

TEST_CASE("Blocks of an allocator over host memory can be written end to end without touching each other") {
  HostSource source(256 * mib);
  CachingAllocator allocator(source);
  std::vector<Block> blocks;
  for (std::int64_t i = 1; i <= 60; ++i) {
    blocks.push_back(allocator.allocate(i * 50001));
    std::memset(blocks.back().address, static_cast<int>(i), static_cast<std::size_t>(blocks.back().requested));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i].address);
    CHECK(bytes[0] == i + 1);
    CHECK(bytes[blocks[i].requested - 1] == i + 1);
    allocator.free(blocks[i]);
  }
}

}  // namespace trainer::test
