#pragma once

#include "engine/device/device.h"

namespace trainer {

/// memory.offload changes no bit of a run, lowers its peak, is planned to the byte, and steps that repeat themselves
/// are replayed where the device can.
void check_offloaded_runs(Device& device);

}  // namespace trainer
