#pragma once

#include <cstdint>
#include <string>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/plan/cost_model.h"

namespace trainer {

/// What planning says of one experiment.
struct Verdict {
  std::string problem;  ///< why it cannot be planned: shapes, rules, the device; empty: it can
  bool fits = false;
  /// Of the whole run: under the capacity where it fits, else without a bound.
  std::int64_t peak_reserved = 0;
  StepTime time;
  std::int64_t samples_per_step = 0;
};

/// Plans experiments for one device, many of them: what searches for what fits ask. What `train.batch_size: auto` and
/// `train.checkpointing: auto` stand for is settled for the capacity first. Answers are those of make_memory_plan, to
/// the byte.
class Planner {
 public:
  /// Both must outlive it.
  Planner(const DeviceModel& device, const MachineRates& rates) : device_(device), rates_(rates) {}

  Verdict plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity);
  /// plan().fits, sooner: false as soon as it is known.
  bool fits(const Experiment& experiment, const DataDescription& data, std::int64_t capacity);

  const DeviceModel& device() const { return device_; }
  const MachineRates& rates() const { return rates_; }

 private:
  const DeviceModel& device_;
  const MachineRates& rates_;
};

}  // namespace trainer
