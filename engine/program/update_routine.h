#pragma once

#include "engine/program/schedule.h"

namespace trainer {

/// Appends the optimizer's persistent state to `load`.
void append_optimizer_state(Program& program, Scheduler& scheduler, const Experiment& experiment);

/// The update: clipping where asked for, one call for each group of parameters (those that decay, those that do not),
/// then the release of all gradients.
Routine schedule_update(Program& program, Scheduler& scheduler, const Experiment& experiment);

}  // namespace trainer
