#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/machine_rates.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Calls of a step that are alike: one kind of op in one phase, over operands of the same sizes.
struct StepOp {
  OpKind kind{};
  Phase phase = Phase::forward;
  bool in_half = false;           ///< an operand is of 16 bits
  bool statistics = false;        ///< a convolution's, which it makes or, as a batch norm, is given
  double num_calls = 0;           ///< in a step
  double flops = 0;               ///< of one call, as is all that follows
  std::int64_t input_bytes = 0;   ///< of the operands that it reads; some ops write into them
  std::int64_t output_bytes = 0;  ///< of its other operands
  std::int64_t workspace_bytes = 0;
  double predicted_seconds = 0;
};

/// The run's first step in the order of its calls, each kind at its first one. The calls' FLOPs add up to
/// step_flops().total, and their predicted seconds to predict_step_time() without the host's part, but for what ranks
/// tell each other: an exchange that is started counts whole, though it runs beside others.
std::vector<StepOp> step_ops(const Program& program, const RunSchedule& schedule, const MachineRates& rates);

}  // namespace trainer
