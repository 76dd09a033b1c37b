#pragma once

#include <span>

#include "engine/program/schedule.h"

namespace trainer {

/// Appends the optimizer's persistent state to `load`.
void append_optimizer_state(Program& program, Scheduler& scheduler, const Experiment& experiment);

/// Appends the update of `parameters` to a routine: one call for all that are alike (in types, and in whether weights
/// decay). `factor` is gradient_factor's output, or -1.
void append_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine,
                   BufferId factor, std::span<const std::int32_t> parameters);

/// What ends a step: the factor of the gradients where they are clipped or scaled, the update of all parameters, the
/// release of all gradients, and the next loss scale; where updates are made in the backward pass nothing of these.
/// Then the averages of weights, where there are some.
Routine schedule_update(Program& program, Scheduler& scheduler, const Experiment& experiment);

}  // namespace trainer
