#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/change.h"
#include "engine/plan/planner.h"

namespace trainer {

/// Changes that apply to this experiment, each re-planned under `capacity`; those that do not fit come last with
/// fits = false only where fewer than three fit. Best first: same result, then least change. `device_capacity` is
/// what the device could give if the experiment's memory.limit were higher; 0: unknown, so that is not offered.
std::vector<Change> find_fixes(Planner& planner, const Experiment& experiment, const DataDescription& data,
                               std::int64_t capacity, std::int64_t device_capacity = 0);

/// The largest micro-batch size in [1, limit] that fits, 0 where none does.
std::int64_t largest_fitting_batch_size(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                        std::int64_t capacity, std::int64_t limit);

}  // namespace trainer
