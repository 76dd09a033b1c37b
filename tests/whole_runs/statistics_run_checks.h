#pragma once

#include "engine/device/device.h"

namespace trainer {

/// Runs in fp16 whose batch norms take the statistics of their convolutions, where the device has any: losses stay near
/// the CPU's, the plan's bytes are the run's, and what only holds less memory changes no bit. Returns the number of
/// convolutions with statistics in a micro-batch.
int check_runs_with_statistics(Device& device);

}  // namespace trainer
