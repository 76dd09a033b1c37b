#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/memory_plan.h"

namespace trainer {

/// A change that was planned and shown to fit.
struct Fix {
  std::vector<std::string> set;  ///< overrides to paste: "train.batch_size=48"
  std::string what;              ///< "smaller batch: the largest that fits"
  std::int64_t peak_reserved = 0;
  std::int64_t capacity = 0;  ///< it was planned under: higher than asked for only where the fix raises the limit
  bool fits = true;
  bool same_result = false;         ///< the effective batch and the arithmetic stay (up to rounding)
  double relative_step_time = 1.0;  ///< predicted from FLOPs, against the configuration as it is
};

/// Changes that apply to this experiment, each re-planned under `capacity`; those that do not fit come last with
/// fits = false only where fewer than three fit. Best first: same result, then least change. `device_capacity` is
/// what the device could give if the experiment's memory.limit were higher; 0: unknown, so that is not offered.
std::vector<Fix> find_fixes(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                            std::int64_t capacity, std::int64_t device_capacity = 0);

/// The largest micro-batch size in [1, limit] that fits, 0 where none does.
std::int64_t largest_fitting_batch_size(const Experiment& experiment, const DataDescription& data,
                                        const DeviceModel& device, std::int64_t capacity, std::int64_t limit);

}  // namespace trainer
