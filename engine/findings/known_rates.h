#pragma once

#include <functional>
#include <string>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"

namespace trainer {

/// What is known of the speed of a device.
struct KnownRates {
  MachineRates rates;
  std::string
      problem;  ///< why the file of measured rates cannot be used, and what to do; empty: it is, or there is none
};

/// Of a device of this machine: what `trainer bench` measured; else for a GPU the figures of the shipped profile of its
/// name; else assumed rates of its kind. `config` is what the device was made from: its threads, else `usable_threads`,
/// or whether it uses TF32.
KnownRates rates_of(const Device& device, const DeviceConfig& config, int usable_threads);

/// Takes KnownRates::problem, also where it is empty.
using RatesProblemSink = std::function<void(const std::string& problem)>;

}  // namespace trainer
