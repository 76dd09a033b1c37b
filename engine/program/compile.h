#pragma once

#include "engine/device/device.h"
#include "engine/program/program.h"
#include "engine/program/recompute.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Experiment → graphs → passes → program: every routine the schedule needs, planned together. With `fronts`, searches
/// for what to compute again are made once for all budgets. `checkpointing: auto` wants a budget from
/// engine/plan/settle_experiment.h first; without one it is as `off`.
/// Throws ConfigError for shapes that do not fit together, and for a budget that cannot be met.
Program compile(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                RecomputeFronts* fronts = nullptr);

}  // namespace trainer
