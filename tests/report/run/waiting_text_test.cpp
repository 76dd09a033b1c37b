#include <catch2/catch.hpp>

#include "engine/report/run/waiting_text.h"

using namespace trainer;

TEST_CASE("waiting for samples is told from a twentieth of the training on, unless it was short") {
  CHECK(waiting_share(6.3, 10, 1) == "63 %");
  CHECK(waiting_share(0.5, 10, 0.1) == "5 %");
  CHECK(waiting_share(0.49, 10, 0.1).empty());
  CHECK(waiting_share(0.09, 0.1, 0.1).empty());
  CHECK(waiting_share(0, 0, 0).empty());
  // Of a batch that was waited for before the clock of its step began.
  CHECK(waiting_share(3, 2, 1) == "100 %");
}
