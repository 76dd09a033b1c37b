#pragma once

#include <cstdint>
#include <string>

#include "cli/devices/device_rates.h"
#include "cli/devices/plan_target.h"
#include "engine/config/experiment.h"
#include "engine/report/sweep/sweep_row.h"

namespace trainer {

/// Plans the points of a sweep, all for the same memory: what is available on this machine is asked once.
class PointPlanner {
 public:
  /// As --gpu and --capacity take them; empty: not given.
  PointPlanner(std::string gpu, std::string capacity) : gpu_(std::move(gpu)), capacity_(std::move(capacity)) {}

  /// Fills in what a plan tells. What cannot be planned is a failed row with the reason.
  void plan(const Experiment& experiment, SweepRow& row);
  /// What plan() plans the experiment for, until it is asked again. Throws ConfigError, DataError, DeviceError.
  const PlanTarget& target_for(const Experiment& experiment);

 private:
  const PlanTarget& target_for(const Experiment& experiment, const DataDescription& data);

  std::string gpu_, capacity_;
  RatesWarnings warnings_;
  PlanTarget target_;
  std::string device_;                ///< what target_ was made for
  std::int64_t available_bytes_ = 0;  ///< for whole processes
};

}  // namespace trainer
