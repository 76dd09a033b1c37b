#include "engine/train/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <string>

#include "tests/source_folder.h"

using namespace trainer;

namespace {

ScheduleConfig schedule_of(ScheduleType type) {
  ScheduleConfig schedule;
  schedule.type = type;
  return schedule;
}

}  // namespace

TEST_CASE("A constant schedule keeps the learning rate") {
  for (const std::int64_t step : {1, 7, 100}) {
    CHECK(learning_rate(schedule_of(ScheduleType::constant), 0.1, step, 100, 10) == 0.1);
  }
}

TEST_CASE("Warm-up rises linearly and reaches the learning rate with its last step") {
  ScheduleConfig schedule = schedule_of(ScheduleType::constant);
  schedule.warmup_steps = 4;
  CHECK(learning_rate(schedule, 0.8, 1, 100, 10) == Approx(0.2));
  CHECK(learning_rate(schedule, 0.8, 2, 100, 10) == Approx(0.4));
  CHECK(learning_rate(schedule, 0.8, 4, 100, 10) == Approx(0.8));
  CHECK(learning_rate(schedule, 0.8, 5, 100, 10) == Approx(0.8));
}

TEST_CASE("A step schedule multiplies by gamma after every interval, in steps or epochs") {
  ScheduleConfig schedule = schedule_of(ScheduleType::step);
  schedule.step_size = 3;
  schedule.gamma = 0.5;
  const double expected[] = {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25};
  for (int i = 0; i < 8; ++i) CHECK(learning_rate(schedule, 1.0, i + 1, 100, 10) == Approx(expected[i]));
  schedule.step_size = 2;
  schedule.step_size_in_epochs = true;
  CHECK(learning_rate(schedule, 1.0, 20, 100, 10) == Approx(1.0));
  CHECK(learning_rate(schedule, 1.0, 21, 100, 10) == Approx(0.5));
  schedule.step_size_in_epochs = false;
  schedule.warmup_steps = 5;  // counts from the end of the warm-up
  CHECK(learning_rate(schedule, 1.0, 7, 100, 10) == Approx(1.0));
  CHECK(learning_rate(schedule, 1.0, 8, 100, 10) == Approx(0.5));
}

TEST_CASE("A cosine schedule has the values of torch's CosineAnnealingLR") {
  // torch.optim.lr_scheduler.CosineAnnealingLR(lr=0.01, T_max=20): after 0, 5, 10, 19 calls of step().
  const ScheduleConfig schedule = schedule_of(ScheduleType::cosine);
  CHECK(learning_rate(schedule, 0.01, 1, 20, 5) == Approx(0.01));
  CHECK(learning_rate(schedule, 0.01, 6, 20, 5) == Approx(0.008535533905932738));
  CHECK(learning_rate(schedule, 0.01, 11, 20, 5) == Approx(0.005));
  CHECK(learning_rate(schedule, 0.01, 20, 20, 5) == Approx(6.155829702431115e-05));

  ScheduleConfig shifted = schedule;
  shifted.final_factor = 0.2;
  shifted.warmup_steps = 10;
  CHECK(learning_rate(shifted, 1.0, 11, 20, 5) == Approx(1.0));
  CHECK(learning_rate(shifted, 1.0, 16, 20, 5) == Approx(0.6));  // half-way between 1 and 0.2
}

TEST_CASE("A one-cycle schedule has the values of torch's OneCycleLR") {
  std::ifstream golden(source_folder() + "/tests/golden/one_cycle.txt");
  ScheduleConfig schedule = schedule_of(ScheduleType::one_cycle);
  std::int64_t total = 0;
  std::int64_t num_steps = 0;
  for (std::string word; golden >> word;) {
    if (word == "run") {
      REQUIRE(golden >> total >> schedule.warmup_fraction >> schedule.start_divisor >> schedule.final_divisor);
      continue;
    }
    std::string expected;
    REQUIRE(golden >> expected);
    // Where torch divides by zero the rise is over with the first step.
    const double rate = expected == "nan" ? 0.5 : std::stod(expected);
    INFO("step " << word << " of " << total << ", warmup_fraction " << schedule.warmup_fraction);
    CHECK(learning_rate(schedule, 0.5, std::stoll(word), total, 1) == Approx(rate).epsilon(1e-9));
    ++num_steps;
  }
  CHECK(num_steps > 200);
}

TEST_CASE("A one-cycle schedule starts, peaks and ends where its keys say, however long the run") {
  ScheduleConfig schedule = schedule_of(ScheduleType::one_cycle);
  schedule.warmup_fraction = GENERATE(0.25, 0.5, 0.1);
  for (std::int64_t total = 1; total <= 10000; ++total) {
    INFO("of " << total << " steps");
    const auto rate = [&](std::int64_t step) { return learning_rate(schedule, 1.0, step, total, 1); };
    const double top = schedule.warmup_fraction * static_cast<double>(total);
    const bool starts = top <= 1 || std::abs(rate(1) / (1.0 / 25) - 1) < 1e-9;
    const bool ends = std::abs(rate(total) / 1e-5 - 1) < 1e-6;
    const auto peak = static_cast<std::int64_t>(std::round(top));
    const bool is_whole = std::abs(top - static_cast<double>(peak)) < 1e-9 && peak >= 1;
    const bool peaks = !is_whole || std::abs(rate(peak) - 1) < 1e-9;
    // Up to the step at the top or the last before it, down from the next one.
    const auto below = static_cast<std::int64_t>(std::floor(top + 1e-9));
    const bool rises = below < 2 || rate(below - 1) < rate(below);
    const bool falls = below + 2 > total || rate(below + 1) > rate(below + 2);
    if (starts && ends && peaks && rises && falls) continue;
    CHECK(starts);
    CHECK(ends);
    CHECK(peaks);
    CHECK(rises);
    CHECK(falls);
  }
}

TEST_CASE("Schedules hold at their edges") {
  for (const ScheduleType type :
       {ScheduleType::constant, ScheduleType::step, ScheduleType::cosine, ScheduleType::one_cycle}) {
    ScheduleConfig schedule = schedule_of(type);
    schedule.step_size = 1;
    for (const std::int64_t warmup : {0, 1, 5}) {
      schedule.warmup_steps = warmup;
      for (const std::int64_t total : {1, 2, 5}) {
        for (std::int64_t step = 1; step <= total + 1; ++step) {
          const double value = learning_rate(schedule, 0.1, step, total, 1);
          CHECK(std::isfinite(value));
          CHECK(value >= 0);
          CHECK(value <= 0.1);
        }
      }
    }
  }
}

TEST_CASE("momentum goes down while the rate goes up, and back, as torch's OneCycleLR cycles it") {
  ScheduleConfig schedule = schedule_of(ScheduleType::one_cycle);
  CHECK_FALSE(cycled_momentum(schedule, 1, 10).has_value());
  schedule.warmup_fraction = 0.4;
  schedule.momentum = {0.85, 0.95};
  // OneCycleLR(total_steps=10, pct_start=0.4, base_momentum=0.85, max_momentum=0.95): after 0, 1, 2, 3, 4, 9 calls.
  const std::pair<int, double> expected[] = {{1, 0.95}, {2, 0.925}, {3, 0.875}, {4, 0.85}, {5, 0.856698729810778},
                                             {10, 0.95}};
  for (const auto& [step, momentum] : expected) CHECK(*cycled_momentum(schedule, step, 10) == Approx(momentum));
  ScheduleConfig constant = schedule;
  constant.type = ScheduleType::constant;
  CHECK_FALSE(cycled_momentum(constant, 1, 10).has_value());
}
