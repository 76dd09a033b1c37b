#pragma once

#include <functional>

#include "engine/device/device.h"
#include "engine/plan/fit_rates.h"

namespace trainer {

/// How close the rates come to what they were fitted to: medians of |predicted / measured − 1|.
struct FitQuality {
  int num_calls = 0;      ///< distinct ones that were timed
  double call_error = 0;  ///< over these
  double step_error = 0;  ///< over the networks, of all calls of a step
};

struct Calibration {
  MachineRates rates;  ///< without source
  FitQuality quality;
};

/// Measures how fast `device` is, by the steps of calibration_networks(), within about `max_seconds`. Calls
/// `on_network` with the name of each network before it runs, of which each does twice. Throws ProgramOutOfMemory where
/// the device has less free than the largest network takes, and DeviceError.
Calibration calibrate(Device& device, double max_seconds,
                      const std::function<void(const std::string& name)>& on_network);

}  // namespace trainer
