#pragma once

#include <cstdint>

#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"
#include "engine/train/events.h"
#include "engine/train/running_stage.h"

namespace trainer {

/// What a run tells of a stage that did not fit `capacity`: what was found, and changes of the stage that fit, each
/// planned, by `rates` the better ones first.
OutOfMemoryEvent failure_event(const RunningStage& stage, OutOfMemoryContext context, std::int64_t capacity,
                               Device& device, const MachineRates& rates);

}  // namespace trainer
