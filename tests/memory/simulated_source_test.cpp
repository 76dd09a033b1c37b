#include "engine/memory/simulated_source.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>

namespace trainer::test {

TEST_CASE("A simulated source hands out distinct, aligned, non-null ranges") {
  SimulatedSource source(std::int64_t{1} << 40);
  std::map<std::uintptr_t, std::int64_t> ranges;
  for (std::int64_t num_bytes : {512, 2 << 20, 512 * 7, 20 << 20, 512}) {
    const auto address = reinterpret_cast<std::uintptr_t>(source.acquire(num_bytes));
    CHECK(address != 0);
    CHECK(address % 512 == 0);
    CHECK(ranges.emplace(address, num_bytes).second);
  }
  std::uintptr_t end = 0;
  for (const auto& [address, num_bytes] : ranges) {
    CHECK(address >= end);
    end = address + static_cast<std::uintptr_t>(num_bytes);
  }
}

TEST_CASE("A simulated source refuses beyond its capacity, and counts what it holds") {
  SimulatedSource source(1000);
  CHECK(source.capacity() == 1000);
  CHECK(source.acquire(1001) == nullptr);
  void* first = source.acquire(600);
  CHECK(first != nullptr);
  CHECK(source.held() == 600);
  CHECK(source.acquire(401) == nullptr);
  CHECK(source.acquire(400) != nullptr);
  CHECK(source.held() == 1000);
  source.release(first, 600);
  CHECK(source.held() == 400);
  CHECK(source.acquire(600) != nullptr);
  CHECK(source.acquire(std::numeric_limits<std::int64_t>::max()) == nullptr);
}

TEST_CASE("A simulated source without capacity refuses everything") {
  SimulatedSource source(0);
  CHECK(source.acquire(1) == nullptr);
  CHECK(source.held() == 0);
}

}  // namespace trainer::test
