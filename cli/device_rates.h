#pragma once

#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"

namespace trainer {

/// What is known of the speed of a device of this machine.
MachineRates rates_of(const Device& device);

}  // namespace trainer
