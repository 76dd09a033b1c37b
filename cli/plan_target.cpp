#include "cli/plan_target.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "cli/device_rates.h"
#include "cli/gpu_profile.h"
#include "cuda/model/described_device.h"
#include "engine/bytes.h"
#include "engine/errors.h"

namespace trainer {
namespace {

std::int64_t parse_capacity(const std::string& text) {
  const std::optional<std::int64_t> num_bytes = parse_bytes(text);
  if (!num_bytes)
    throw ConfigError(
        fmt::format("--capacity '{}' is not a size; write bytes or a unit, such as 1500MB or 2GiB", text));
  return *num_bytes;
}

PlanTarget this_machine(const Experiment& experiment, const std::string& capacity) {
  std::unique_ptr<Device> device;
  try {
    device = make_device(experiment);
  } catch (const DeviceError& error) {
    throw DeviceError(
        fmt::format("{}\n--gpu PROFILE plans for a GPU that is not here; --gpu list lists profiles", error.what()));
  }
  PlanTarget target;
  target.available_bytes = device->available_bytes();
  target.capacity =
      capacity.empty() ? capacity_of(experiment, *device) : Capacity{parse_capacity(capacity), "--capacity"};
  target.rates = rates_of(*device);
  target.device = std::move(device);
  return target;
}

PlanTarget described_gpu(const Experiment& experiment, const std::string& gpu, const std::string& capacity) {
  const GpuProfile profile = find_gpu_profile(gpu);
  const DeviceConfig& config = experiment.device;
  constexpr int first_with_bf16 = 80;
  if (experiment.train.amp == Amp::bf16 && profile.compute_capability < first_with_bf16) {
    throw DeviceError(fmt::format("{} has compute capability {:.1f}, and bf16 needs 8.0; train.amp=fp16 runs there",
                                  profile.name, profile.compute_capability / 10.0));
  }
  PlanTarget target;
  target.device =
      cuda::make_described_device(profile, {config.tf32, config.autotune, experiment.memory.expandable_segments},
                                  experiment.memory.workspace_limit);
  target.available_bytes = profile.free_bytes();
  target.profile = profile.path;
  target.rates = profile_rates(profile, config.tf32);
  target.capacity = {profile.free_bytes(), fmt::format("free on an idle {}", profile.name)};
  if (experiment.memory.limit && *experiment.memory.limit <= target.capacity.num_bytes)
    target.capacity = {*experiment.memory.limit, "memory.limit"};
  if (!capacity.empty()) {
    const std::int64_t asked = parse_capacity(capacity);
    if (asked <= target.capacity.num_bytes) target.capacity = {asked, "--capacity"};
  }
  return target;
}

}  // namespace

PlanTarget find_plan_target(const Experiment& experiment, const std::string& gpu, const std::string& capacity) {
  PlanTarget target = gpu.empty() ? this_machine(experiment, capacity) : described_gpu(experiment, gpu, capacity);
  target.capacity_given = !capacity.empty();
  return target;
}

}  // namespace trainer
