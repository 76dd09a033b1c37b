#include "engine/report/text/nearest_integer.h"

#include <catch2/catch.hpp>

using namespace trainer;

TEST_CASE("numbers beyond the integers become the furthest of them") {
  CHECK(nearest_integer(-2.6) == -3);
  CHECK(nearest_integer(1e300) == std::numeric_limits<std::int64_t>::max());
  CHECK(nearest_integer(-INFINITY) == std::numeric_limits<std::int64_t>::min());
  CHECK(nearest_integer(NAN) == 0);
}
