#pragma once

#include <functional>
#include <optional>
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
/// name; else assumed rates of its kind. `experiment` is what the device was made from: its threads, of
/// `usable_threads`, or whether it uses TF32. Ranks of CPUs that are planned, and have more threads together than their
/// machine, share it.
KnownRates rates_of(const Device& device, const Experiment& experiment, int usable_threads);

/// The FLOPs a second that products reach at most in the precision of `amp`: of a GPU as the shipped profile of its
/// name has it, of a CPU the rate of large ones by what `trainer bench` measured; nothing where that is not known.
/// `rates` are rates_of the device.
std::optional<double> peak_flops_of(const Device& device, const DeviceConfig& config, Amp amp,
                                    const MachineRates& rates);

/// Takes KnownRates::problem, also where it is empty.
using RatesProblemSink = std::function<void(const std::string& problem)>;

}  // namespace trainer
