#include "engine/findings/known_rates.h"

#include <optional>
#include <utility>

#include "engine/errors.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/train/measure/rates_file.h"

namespace trainer {
namespace {

MachineRates unmeasured_rates(const Device& device, const DeviceConfig& config, int usable_threads) {
  if (device.kind() != "cuda") return assumed_cpu_rates(config.threads > 0 ? config.threads : usable_threads);
  for (const GpuProfile& profile : shipped_gpu_profiles())
    if (profile.name == device.name()) return profile_rates(profile, config.tf32);
  return assumed_gpu_rates(config.tf32);
}

}  // namespace

KnownRates rates_of(const Device& device, const DeviceConfig& config, int usable_threads) {
  KnownRates known;
  std::string path;
  try {
    path = rates_path(device.name());
  } catch (const DataError&) {
    // Where there is no folder for caches, nothing was stored.
  }
  try {
    if (!path.empty()) {
      if (std::optional<MachineRates> measured = read_rates(path, device.name())) return {*std::move(measured), ""};
    }
  } catch (const DataError& error) {
    known.problem = error.what();
  }
  known.rates = unmeasured_rates(device, config, usable_threads);
  return known;
}

}  // namespace trainer
