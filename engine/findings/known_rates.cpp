#include "engine/findings/known_rates.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/errors.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/train/measure/rates_file.h"

namespace trainer {
namespace {

MachineRates unmeasured_rates(const Device& device, const Experiment& experiment, int usable_threads) {
  const DeviceConfig& config = experiment.device;
  if (device.kind() != "cuda") return assumed_cpu_rates(device_threads(experiment, usable_threads));
  for (const GpuProfile& profile : shipped_gpu_profiles())
    if (profile.name == device.name()) return profile_rates(profile, config.tf32);
  return assumed_gpu_rates(config.tf32);
}

/// How many share each thread of the machine, by what is planned: a rank that was started may have cores of its own.
double num_sharing(const Device& device, const Experiment& experiment, int usable_threads) {
  if (device.kind() == "cuda" || experiment.parallel.num_local > 0) return 1;
  const auto num_busy =
      static_cast<double>(ranks_here(experiment.parallel) * device_threads(experiment, usable_threads));
  return std::max(num_busy / usable_threads, 1.0);
}

/// The same of one process alone, which is in what was measured.
double num_sharing_alone(const Experiment& experiment, int usable_threads) {
  return std::max(static_cast<double>(device_threads(experiment, usable_threads)) / usable_threads, 1.0);
}

}  // namespace

KnownRates rates_of(const Device& device, const Experiment& experiment, int usable_threads) {
  KnownRates known;
  std::string path;
  try {
    path = rates_path(device.name());
  } catch (const DataError&) {
    // Where there is no folder for caches, nothing was stored.
  }
  try {
    if (!path.empty()) {
      if (std::optional<MachineRates> measured = read_rates(path, device.name()))
        return {shared_rates(*std::move(measured), std::max(num_sharing(device, experiment, usable_threads) /
                                                                num_sharing_alone(experiment, usable_threads),
                                                            1.0)),
                ""};
    }
  } catch (const DataError& error) {
    known.problem = error.what();
  }
  known.rates = shared_rates(unmeasured_rates(device, experiment, usable_threads),
                             num_sharing(device, experiment, usable_threads));
  return known;
}

std::optional<double> peak_flops_of(const Device& device, const DeviceConfig& config, Amp amp,
                                    const MachineRates& rates) {
  if (device.kind() != "cuda") {
    if (rates.origin != MachineRates::Origin::measured) return std::nullopt;
    const RateTable& table = amp == Amp::off ? rates.f32 : rates.half;
    return table[static_cast<std::size_t>(RateClass::usual)][static_cast<std::size_t>(OpKind::linear)].flops_per_second;
  }
  std::vector<GpuProfile> profiles;
  try {
    profiles = shipped_gpu_profiles();
  } catch (const Error&) {
    return std::nullopt;  // a damaged profile is told to those who name it
  }
  for (const GpuProfile& profile : profiles) {
    if (profile.name != device.name()) continue;
    const double tflops = amp != Amp::off                   ? profile.fp16
                          : config.tf32 && profile.tf32 > 0 ? profile.tf32
                                                            : profile.fp32;
    return tflops > 0 ? std::optional(1e12 * tflops) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trainer
