#pragma once

#include <memory>

#include "engine/config/experiment.h"
#include "engine/config/gpu_profile.h"
#include "engine/device/device.h"

namespace trainer {

/// Where the devices come from that findings are about: those of this machine, and GPUs that are only described.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  /// The device of this machine that the configuration names. Throws DeviceError, ConfigError.
  virtual std::unique_ptr<Device> make(const Experiment& experiment) const = 0;
  /// A GPU as its profile describes it, under the experiment's settings. Throws DeviceError.
  virtual std::unique_ptr<DeviceModel> describe(const GpuProfile& profile, const Experiment& experiment) const = 0;
  /// Threads that this process may keep busy.
  virtual int usable_threads() const = 0;
};

}  // namespace trainer
