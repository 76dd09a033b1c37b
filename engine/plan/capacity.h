#pragma once

#include <cstdint>
#include <string>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// What is left of `available` bytes of a device for the allocator of a run: what the process needs of it beside is
/// taken off (host_reserve in process_memory.h). `dataset_is_loaded`: no room is left for it.
std::int64_t memory_for_allocator(std::int64_t available, const Experiment& experiment, const DataDescription& data,
                                  const DeviceModel& device, bool dataset_is_loaded);

/// The lower of `num_bytes` and memory.limit.
std::int64_t within_limit(std::int64_t num_bytes, const Experiment& experiment);

/// What the allocator of a run on the device may reserve now, which holds `held` of it already.
std::int64_t run_capacity(const Experiment& experiment, const DataDescription& data, const Device& device,
                          bool dataset_is_loaded, std::int64_t held = 0);

/// What may be reserved, and why it is that much.
struct Capacity {
  std::int64_t num_bytes = 0;
  std::string origin;  ///< "memory.limit", "available on this machine", or a rank's share of that
};

/// run_capacity, before the dataset is loaded.
Capacity capacity_of(const Experiment& experiment, const DataDescription& data, const Device& device);

}  // namespace trainer
