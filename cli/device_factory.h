#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// The device that the configuration names; `auto` is the first GPU that this build and machine can use, else the CPU,
/// and says so on stderr where there is a GPU. Throws DeviceError, which says what to do, where there is no such
/// device.
std::unique_ptr<Device> make_device(const Experiment& experiment);

/// What may be reserved, and why it is that much.
struct Capacity {
  std::int64_t num_bytes = 0;
  std::string origin;  ///< "memory.limit", "available on this machine"
};

/// The device's free memory now, less what the process needs of it beside the allocator, or memory.limit if lower. The
/// dataset is not loaded.
Capacity capacity_of(const Experiment& experiment, const DataDescription& data, const Device& device);

}  // namespace trainer
