#pragma once

#include <memory>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/findings/device_source.h"

namespace trainer {

/// The device that the configuration names; `auto` is the first GPU that this build and machine can use, else the CPU,
/// and says so on stderr where there is a GPU. Of several ranks on a machine each takes another GPU, unless the
/// configuration says which. Throws DeviceError, which says what to do, where there is no such device.
std::unique_ptr<Device> make_device(const Experiment& experiment);

/// The same for findings, with the GPUs that the CUDA module describes.
class MachineDevices final : public DeviceSource {
 public:
  std::unique_ptr<Device> make(const Experiment& experiment) const override;
  std::unique_ptr<DeviceModel> describe(const GpuProfile& profile, const Experiment& experiment) const override;
  int usable_threads() const override;
};

}  // namespace trainer
