#include "engine/train/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>

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

TEST_CASE("A one-cycle schedule follows fastai's fit_one_cycle") {
  // combined_cos(0.25, lr/25, lr, lr/1e5) at positions 0, 1/8, 1/4, 5/8 and 39/40.
  const ScheduleConfig schedule = schedule_of(ScheduleType::one_cycle);
  CHECK(learning_rate(schedule, 1.0, 1, 40, 10) == Approx(0.04));
  CHECK(learning_rate(schedule, 1.0, 6, 40, 10) == Approx(0.52));
  CHECK(learning_rate(schedule, 1.0, 11, 40, 10) == Approx(1.0));
  CHECK(learning_rate(schedule, 1.0, 26, 40, 10) == Approx(0.500005));
  const double last = 1 + (1 + std::cos(M_PI * (1 - (39.0 / 40 - 0.25) / 0.75))) * (1e-5 - 1) / 2;
  CHECK(learning_rate(schedule, 1.0, 40, 40, 10) == Approx(last));
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
