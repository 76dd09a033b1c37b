#include "engine/report/logging/step_thinning.h"

#include <catch2/catch.hpp>

using namespace trainer;

namespace {

StepEvent timed_step(std::int64_t number, double seconds) {
  StepEvent event;
  event.step = number;
  event.stage = "fast";
  event.seconds = seconds;
  return event;
}

}  // namespace

TEST_CASE("every step is taken while none comes faster than ten a second") {
  StepThinning thinning;
  for (std::int64_t step = 1; step <= 5000; ++step) {
    const bool is_taken = thinning.takes(timed_step(step, 0.1));
    if (!is_taken) FAIL("step " << step);
  }
  CHECK(thinning.take_waiting() == nullptr);
}

TEST_CASE("of faster steps the first 1,000 are taken, then ten a second, and the last one waits to be") {
  StepThinning thinning;
  std::vector<std::int64_t> taken;
  for (std::int64_t step = 1; step <= 3333; ++step)
    if (thinning.takes(timed_step(step, 0x1p-10))) taken.push_back(step);
  REQUIRE(taken.size() > 1002);
  CHECK(taken[999] == 1000);
  for (std::size_t i = 1000; i < taken.size(); ++i) CHECK(taken[i] - taken[i - 1] == 103);  // 0.1 s · 1024, rounded up
  const StepEvent* const last = thinning.take_waiting();
  REQUIRE(last != nullptr);
  CHECK(last->step == 3333);
  CHECK(last->stage.empty());
  CHECK(thinning.take_waiting() == nullptr);
}
