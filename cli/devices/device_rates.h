#pragma once

#include <set>
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
/// name; else assumed rates of its kind. `config` is what the device was made from: its threads, or whether it uses
/// TF32.
KnownRates rates_of(const Device& device, const DeviceConfig& config);

/// Tells a command's user what is wrong with files of rates.
class RatesWarnings {
 public:
  /// Says a problem on stderr the first time; nothing where it is empty.
  void tell(const std::string& problem);

 private:
  std::set<std::string> told_;
};

}  // namespace trainer
