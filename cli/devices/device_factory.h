#pragma once

#include <memory>

#include "engine/config/experiment.h"
#include "engine/device/device.h"

namespace trainer {

/// The device that the configuration names; `auto` is the first GPU that this build and machine can use, else the CPU,
/// and says so on stderr where there is a GPU. Throws DeviceError, which says what to do, where there is no such
/// device.
std::unique_ptr<Device> make_device(const Experiment& experiment);

}  // namespace trainer
