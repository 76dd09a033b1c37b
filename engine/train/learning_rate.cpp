#include "engine/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainer {
namespace {

/// From `begin` to `end` while `position` goes from 0 to 1.
double cosine_between(double begin, double end, double position) {
  return end + (begin - end) / 2 * (1 + std::cos(std::numbers::pi * position));
}

/// From `start` to `middle` until the top of the cycle, and to `end` with the last step. `index` is the step's, from 0.
double one_cycle(const ScheduleConfig& schedule, double start, double middle, double end, double index,
                 double num_steps) {
  const double top = schedule.warmup_fraction * num_steps - 1;
  const double last = num_steps - 1;
  // A rise that ends where it begins, with the first step, is that step at the top; PyTorch divides by zero there.
  if (index <= top) return top > 0 ? cosine_between(start, middle, index / top) : middle;
  return cosine_between(middle, end, (index - top) / (last - top));
}

}  // namespace

double learning_rate(const ScheduleConfig& schedule, double lr, std::int64_t step, std::int64_t total_steps,
                     std::int64_t steps_per_epoch) {
  step = std::clamp<std::int64_t>(step, 1, std::max<std::int64_t>(total_steps, 1));
  if (schedule.type == ScheduleType::one_cycle) {
    return one_cycle(schedule, lr / schedule.start_divisor, lr, lr / schedule.final_divisor,
                     static_cast<double>(step - 1), static_cast<double>(total_steps));
  }
  const std::int64_t warmup = std::max<std::int64_t>(schedule.warmup_steps, 0);
  if (step <= warmup) return lr * static_cast<double>(step) / static_cast<double>(warmup);
  const std::int64_t done = step - 1 - warmup;
  switch (schedule.type) {
    case ScheduleType::constant:
    case ScheduleType::one_cycle:
      return lr;
    case ScheduleType::step: {
      const std::int64_t every = schedule.step_size * (schedule.step_size_in_epochs ? steps_per_epoch : 1);
      const std::int64_t num_decays = every > 0 ? done / every : 0;
      return lr * std::pow(schedule.gamma, static_cast<double>(num_decays));
    }
    case ScheduleType::cosine: {
      const double position = static_cast<double>(done) / static_cast<double>(total_steps - warmup);
      return cosine_between(lr, lr * schedule.final_factor, position);
    }
  }
  return lr;
}

std::optional<double> cycled_momentum(const ScheduleConfig& schedule, std::int64_t step, std::int64_t total_steps) {
  if (schedule.type != ScheduleType::one_cycle || schedule.momentum.empty()) return std::nullopt;
  step = std::clamp<std::int64_t>(step, 1, std::max<std::int64_t>(total_steps, 1));
  const double lowest = schedule.momentum.front(), highest = schedule.momentum.back();
  return one_cycle(schedule, highest, lowest, highest, static_cast<double>(step - 1), static_cast<double>(total_steps));
}

}  // namespace trainer
