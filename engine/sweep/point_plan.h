#pragma once

#include <cstdint>
#include <string>

#include "engine/config/experiment.h"
#include "engine/findings/known_rates.h"
#include "engine/findings/plan_target.h"
#include "engine/report/sweep/sweep_row.h"

namespace trainer {

/// Plans the points of a sweep, all for the same memory: what is available on this machine is asked once.
class PointPlanner {
 public:
  /// `gpu` and `capacity` as --gpu and --capacity take them; empty: not given.
  PointPlanner(const DeviceSource& devices, std::string gpu, std::string capacity, RatesProblemSink on_rates_problem)
      : devices_(devices),
        gpu_(std::move(gpu)),
        capacity_(std::move(capacity)),
        on_rates_problem_(std::move(on_rates_problem)) {}

  /// Fills in what a plan tells. What cannot be planned is a failed row with the reason.
  void plan(const Experiment& experiment, SweepRow& row);
  /// What plan() plans the experiment for, until it is asked again. Throws ConfigError, DataError, DeviceError.
  const PlanTarget& target_for(const Experiment& experiment);

 private:
  const PlanTarget& target_for(const Experiment& experiment, const DataDescription& data);

  const DeviceSource& devices_;
  std::string gpu_, capacity_;
  RatesProblemSink on_rates_problem_;
  PlanTarget target_;
  std::string device_;                ///< what target_ was made for
  std::int64_t available_bytes_ = 0;  ///< for whole processes
};

}  // namespace trainer
