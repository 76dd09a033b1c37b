#include "cli/device_rates.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "cli/gpu_profile.h"
#include "engine/errors.h"
#include "engine/train/rates_file.h"

namespace trainer {
namespace {

/// Nothing where there is no file, or none that can be used.
std::optional<MachineRates> stored_rates(const Device& device) {
  static bool has_warned = false;
  std::string path;
  try {
    path = rates_path(device.name());
  } catch (const DataError&) {
    return std::nullopt;  // where there is no folder for caches, nothing was stored
  }
  try {
    return read_rates(path, device.name());
  } catch (const DataError& error) {
    if (!has_warned) std::fputs(fmt::format("warning: {}\n", error.what()).c_str(), stderr);
    has_warned = true;
    return std::nullopt;
  }
}

}  // namespace

MachineRates rates_of(const Device& device) {
  if (std::optional<MachineRates> stored = stored_rates(device)) return *std::move(stored);
  if (device.kind() == "cuda") {
    for (const GpuProfile& profile : shipped_gpu_profiles())
      if (profile.name == device.name()) return profile_rates(profile, false);
  }
  return assumed_cpu_rates(static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace trainer
