#pragma once

#include "engine/plan/machine_rates.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

// Note [Cost model]
// ~~~~~~~~~~~~~~~~~
// An op takes the longer of its FLOPs over a rate and the bytes of its operands over a bandwidth, and the time of a
// call; a step is the sum of its ops, since they run one after the other, and what the host adds. The rates are of the
// machine and the kind of op (engine/plan/machine_rates.h).

/// Predicted seconds of one run of `op`.
double predicted_seconds(const Op& op, const MachineRates& rates);

/// Predicted seconds of one step (an update, with all its micro-batches).
struct StepTime {
  double seconds = 0;
  double forward = 0, backward = 0, recompute = 0, update = 0;  ///< of `seconds`; the rest is the host's
};

/// Of a step of whole batches.
StepTime predict_step_time(const Program& program, const RunSchedule& schedule, const MachineRates& rates);

}  // namespace trainer
