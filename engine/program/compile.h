#pragma once

#include "engine/device/device.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Experiment → graphs → passes → program: every routine the schedule needs, planned together.
/// Throws ConfigError for shapes that do not fit together.
Program compile(const Experiment& experiment, const DataDescription& data, const DeviceModel& device);

}  // namespace trainer
