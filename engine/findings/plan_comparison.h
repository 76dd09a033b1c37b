#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"

namespace trainer {

/// The plan of an experiment for one of several devices or capacities.
struct PlannedTarget {
  std::string gpu_given, capacity_given;  ///< as --gpu and --capacity took them; empty: not given
  /// What it was asked for by: "rtx4090", "8GiB", "rtx4090, 8GiB".
  std::string target() const {
    return gpu_given + (gpu_given.empty() || capacity_given.empty() ? "" : ", ") + capacity_given;
  }
  std::string device_kind, device_name;
  std::string profile;  ///< the file that describes the device; empty: it is one of this machine
  std::int64_t capacity = 0;
  std::string capacity_origin;  ///< as PlanFindings::capacity_origin
  std::string problem;          ///< why it cannot be planned there; empty: it can, and what follows holds
  bool fits = false;
  std::int64_t peak_reserved = 0;                    ///< without a bound where it does not fit
  std::optional<std::int64_t> batch_size_that_fits;  ///< where it does not: find_largest_batch; 0: none
  double step_seconds = 0, samples_per_second = 0;   ///< predicted
  MachineRates::Origin rates = MachineRates::Origin::assumed;
  std::string rates_source;                   ///< MachineRates::source
  std::int64_t batch_size = 0;                ///< of a micro-batch; train.batch_size: auto as a number
  std::vector<NamedBytes> outside_allocator;  ///< DeviceModel::outside_allocator
  std::vector<std::string> notes;             ///< sentences about what was asked for and is not as it seems
};

struct PlanComparison {
  std::string experiment_name, config_path;
  std::vector<std::string> overrides;            ///< the experiment was loaded with
  std::int64_t batch_size = 0;                   ///< 0: as large as fits each
  std::optional<std::int64_t> asked_batch_size;  ///< train.batch_size, where it is a number: no less than batch_size
  std::vector<std::string> notes;  ///< sentences about what was asked for and is not as it seems, on every target
  std::vector<PlannedTarget> targets;
  bool is_interrupted = false;  ///< not all were planned

  bool fits_all() const;
  /// The smallest capacity first.
  void sort();
};

}  // namespace trainer
