#include "cli/device_factory.h"

#include "engine/cpu/cpu_device.h"
#include "engine/errors.h"
#include "engine/train/training_run.h"

namespace trainer {

std::unique_ptr<Device> make_device(const DeviceConfig& config) {
  switch (config.type) {
    case DeviceType::automatic:
    case DeviceType::cpu:
      return make_cpu_device(config.threads);
    case DeviceType::cuda:
      throw DeviceError("this build of trainer has no CUDA device; use device.type=cpu, or device.type=auto");
  }
  throw InternalError("internal error: every device type is made");
}

Capacity capacity_of(const Experiment& experiment, const Device& device) {
  const std::int64_t num_bytes = run_capacity(experiment, device);
  const bool limited = experiment.memory.limit && *experiment.memory.limit <= num_bytes;
  return {num_bytes, limited ? "memory.limit" : "available on this machine"};
}

}  // namespace trainer
