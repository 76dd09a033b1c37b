#pragma once

#include <array>
#include <cstdint>

#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer::cuda {

/// What the CUDA device starts for the calls of one kind of op in a step.
struct OpLaunches {
  double kernels = 0;        ///< of its own
  double library_calls = 0;  ///< each at least one kernel of cuBLASLt or cuDNN
};

/// Of the run's first step, by kind of op; without what the device does at the step's beginning and end. Nothing is
/// computed: the kernels are made for their shapes, and their launches counted. Steps that offload are refused.
std::array<OpLaunches, num_op_kinds> count_step_launches(const Program& program, const RunSchedule& schedule,
                                                         bool tf32);

}  // namespace trainer::cuda
