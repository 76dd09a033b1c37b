#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/memory/allocator.h"
#include "engine/plan/placed_layouts.h"
#include "engine/plan/search/change.h"
#include "engine/plan/search/planner.h"
#include "engine/program/run_schedule.h"

namespace trainer {

// Note [Adapting a run]
// ~~~~~~~~~~~~~~~~~~~~~
// With memory.on_oom: adapt, a run that meets less memory than it needs, before its first step (by the plan), while it
// loads, in a step or in an evaluation, goes on with another program for the same samples, in the precision it has:
//
// - Memory runs out while a step is laid out, before anything of it has been computed, so that the tensors are those
//   behind the last finished step. They wait in host memory while executor and allocator are replaced.
// - The capacity is from then on what there really is, and never grows again. A plan that fits a capacity is exact, so
//   memory that is refused at a capacity for which there was a plan is not adapted to once more: each adaptation lowers
//   the capacity, or makes the first plan for it.
// - What keeps the result bit for bit comes before what sums in another order, and that before what batch norm and
//   dropout see as other micro-batches; among equals the fastest is taken. The precision stays, and so do the
//   learning rates, which follow the number of the step.
// - `pass`, which keys dropout, becomes what it would be in a run that had started with the new cut of the batch.
//
// A checkpoint says what its run was adapted to, and what it was given. Who resumes with the given configuration goes
// on as adapted, so that the result is that of a run which was not interrupted; what was only adapted bit for bit is
// left out then, and found again where the memory is still short. Who resumes with the adapted configuration does not
// need it. Other differences are refused as ever (find_config_drift).

/// What there really was when `failure` was met and the segment that was to help was refused as well, if there was one.
/// A source that refused below its declared capacity has less: at most what would have made that segment fail, and what
/// the device says is left.
std::int64_t real_capacity(const AllocationFailure& failure, const std::optional<RefusedPlaces>& refused,
                           const Device& device);

/// What the run goes on with under `capacity`; nothing where nothing fits.
std::optional<Change> find_adaptation(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                      std::int64_t capacity);

/// Micro-batches of the first `step` steps: TrainingState::pass behind them.
std::int64_t passes_until(const RunSchedule& schedule, std::int64_t step);

/// The overrides `set` followed by `more`, without those that are replaced: of each key the last one.
std::vector<std::string> joined_overrides(const std::vector<std::string>& set, const std::vector<std::string>& more);

}  // namespace trainer
