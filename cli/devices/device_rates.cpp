#include "cli/devices/device_rates.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "cli/devices/gpu_profile.h"
#include "engine/config/text/utf8_text.h"
#include "engine/cpu/processor.h"
#include "engine/errors.h"
#include "engine/train/measure/rates_file.h"

namespace trainer {
namespace {

MachineRates unmeasured_rates(const Device& device, const DeviceConfig& config) {
  if (device.kind() != "cuda") return assumed_cpu_rates(config.threads > 0 ? config.threads : usable_threads());
  for (const GpuProfile& profile : shipped_gpu_profiles())
    if (profile.name == device.name()) return profile_rates(profile, config.tf32);
  return assumed_gpu_rates(config.tf32);
}

}  // namespace

KnownRates rates_of(const Device& device, const DeviceConfig& config) {
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
  known.rates = unmeasured_rates(device, config);
  return known;
}

void RatesWarnings::tell(const std::string& problem) {
  if (!problem.empty() && told_.insert(problem).second)
    std::fputs(fmt::format("warning: {}\n", escaped(problem)).c_str(), stderr);
}

}  // namespace trainer
