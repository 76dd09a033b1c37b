#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/findings/device_source.h"
#include "engine/graph/data_description.h"
#include "engine/plan/capacity.h"
#include "engine/plan/machine_rates.h"

namespace trainer {

/// What is planned for: the device of this machine, or one that a profile describes.
struct PlanTarget {
  std::unique_ptr<DeviceModel> device;
  std::int64_t available_bytes = 0;  ///< for the allocator, if nothing else bounds it
  Capacity capacity;
  bool capacity_given = false;  ///< by --capacity: then memory.limit is not what bounds it
  std::string profile;          ///< the file; empty: a device of this machine
  MachineRates rates;
  std::string rates_problem;       ///< KnownRates::problem
  std::vector<std::string> notes;  ///< sentences about what was asked for and is not as it seems
};

/// `gpu` and `capacity` as --gpu and --capacity take them, empty: not given; `data` is the experiment's. Throws
/// ConfigError, DeviceError.
PlanTarget find_plan_target(const DeviceSource& devices, const Experiment& experiment, const DataDescription& data,
                            const std::string& gpu, const std::string& capacity);

}  // namespace trainer
