#pragma once

#include <cstdint>

#include "engine/config/experiment.h"

namespace trainer {

/// The learning rate of one step; a pure function, so a resumed run continues it exactly.
///
/// With `lr` the optimizer's, s the step (from 1), W warmup_steps, t = s − 1 − W and T = total_steps − W:
///   warm-up (s ≤ W)  lr · s / W; for every type but one_cycle
///   constant         lr
///   step             lr · gamma^⌊t / every⌋, as torch's StepLR
///   cosine           f + (lr − f) · (1 + cos(π t / T)) / 2 with f = lr · final_factor, as torch's CosineAnnealingLR
///   one_cycle        fastai's fit_one_cycle with p = (s − 1) / total_steps: from lr / start_divisor up to lr at
///                    p = warmup_fraction and down to lr / final_divisor, both along a + (1 + cos(π(1 − q)))(b − a) /
///                    2; the momentum stays as it is
/// `total_steps` ≥ 1; steps beyond it keep the last value.
double learning_rate(const ScheduleConfig& schedule, double lr, std::int64_t step, std::int64_t total_steps,
                     std::int64_t steps_per_epoch);

}  // namespace trainer
