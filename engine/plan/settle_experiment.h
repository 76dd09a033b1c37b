#pragma once

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/program/recompute.h"

namespace trainer {

/// What `auto` stands for under a capacity, found by planning; other experiments are returned as they are.
///
/// train.checkpointing: the largest budget under which the whole run fits, so that the least is computed again; without
/// a budget where it fits as with `off`, and with the smallest there is where none fits.
///
/// `fronts` may be shared by experiments that hold the same while they train but for the capacity and the evaluation.
Experiment settle_experiment(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                             std::int64_t capacity, RecomputeFronts* fronts = nullptr);

}  // namespace trainer
