#pragma once

#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"

namespace trainer {

/// What is known of the speed of a device of this machine: what `trainer bench` measured; else for a GPU the figures of
/// the shipped profile of its name; else assumed rates. Where a file of measured rates cannot be used, says so on
/// stderr, once.
MachineRates rates_of(const Device& device);

}  // namespace trainer
