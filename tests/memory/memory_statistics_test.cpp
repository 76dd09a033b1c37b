#include "engine/memory/memory_statistics.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace trainer;

TEST_CASE("Totals of a counter go on behind the largest number, and what lies between two of them stays right") {
  constexpr std::int64_t block = std::int64_t{1} << 50;
  Counter counter;
  std::int64_t allocated_before = 0, freed_before = 0;
  bool was_large = false, went_on = false;
  for (int i = 0; i < 10'000; ++i) {
    counter.increase(block);
    CHECK(counter.current == block);
    counter.decrease(block);
    was_large = was_large || counter.allocated > std::numeric_limits<std::int64_t>::max() - block;
    went_on = went_on || counter.allocated < 0;
    const auto difference = [](std::int64_t now, std::int64_t before) {
      return static_cast<std::uint64_t>(now) - static_cast<std::uint64_t>(before);
    };
    REQUIRE(difference(counter.allocated, allocated_before) == static_cast<std::uint64_t>(block));
    REQUIRE(difference(counter.freed, freed_before) == static_cast<std::uint64_t>(block));
    allocated_before = counter.allocated;
    freed_before = counter.freed;
  }
  CHECK(was_large);
  CHECK(went_on);
  CHECK(counter.peak == block);
}
