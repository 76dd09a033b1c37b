#pragma once

#include <cstdint>
#include <optional>

#include "engine/config/experiment.h"

namespace trainer {

/// The learning rate of one step; a pure function, so a resumed run continues it exactly.
///
/// With `lr` the optimizer's, s the step (from 1), W warmup_steps, t = s − 1 − W and T = total_steps − W:
///   warm-up (s ≤ W)  lr · s / W; for every type but one_cycle
///   constant         lr
///   step             lr · gamma^⌊t / every⌋, as torch's StepLR
///   cosine           f + (lr − f) · (1 + cos(π t / T)) / 2 with f = lr · final_factor, as torch's CosineAnnealingLR
///   one_cycle        as torch's OneCycleLR (cosine; the momentum stays as it is): from lr / start_divisor with the
///                    first step up to lr with step top = warmup_fraction · total_steps, down to lr / final_divisor
///                    with the last, both along b + (a − b) · (1 + cos(π q)) / 2. Where top < 1 the run begins on the
///                    way down, as in torch: a run of one step has lr / final_divisor. Where top = 1 torch divides by
///                    zero; the first step has lr then
/// `total_steps` ≥ 1; steps beyond it keep the last value.
double learning_rate(const ScheduleConfig& schedule, double lr, std::int64_t step, std::int64_t total_steps,
                     std::int64_t steps_per_epoch);

/// The momentum, or first beta, of one step where schedule.momentum cycles it as torch's OneCycleLR does: from the
/// highest with the first step down to the lowest with the step of the highest learning rate, and back with the last.
/// Nothing where the optimizer's holds throughout.
std::optional<double> cycled_momentum(const ScheduleConfig& schedule, std::int64_t step, std::int64_t total_steps);

}  // namespace trainer
