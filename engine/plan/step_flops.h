#pragma once

#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Floating-point operations of the run's first step.
struct StepFlops {
  double total = 0;
  double recomputed = 0;  ///< of `total`: in phase recompute

  /// What recomputation adds, as a share of the rest.
  double overhead() const { return total > recomputed ? recomputed / (total - recomputed) : 0; }
};

StepFlops step_flops(const Program& program, const RunSchedule& schedule);

}  // namespace trainer
