#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/search/change.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/search/planner.h"

namespace trainer {

/// What to do where an experiment does not fit.
struct Advice {
  /// Changes that fit, the best first (is_advised_before). None can do without any of its settings (Note [Minimal
  /// changes] in engine/plan/search/minimal_change.h).
  std::vector<Change> fixes;
  /// Changes that were planned and are not enough alone, with the peaks they reach without a bound.
  std::vector<Change> not_enough;
  LargestValue largest_batch;           ///< find_largest_batch
  bool one_sample_is_too_many = false;  ///< a batch of one was planned in the place of a larger one, and does not fit
};

/// Looks for changes that make `experiment` fit `capacity`; each is planned. `device_capacity` is what the device could
/// give if the experiment's memory.limit were higher; 0: unknown, so that is not offered.
Advice find_advice(Planner& planner, const Experiment& experiment, const DataDescription& data, std::int64_t capacity,
                   std::int64_t device_capacity = 0);

}  // namespace trainer
