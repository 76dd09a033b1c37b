#pragma once

#include <cstdint>
#include <vector>

#include "datasets/dataset.h"
#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// What a device's allocator really counted.
struct MeasuredStep {
  std::int64_t step = 0;  ///< 0: loading
  bool evaluation = false;
  StepMemory memory;
};

struct MeasuredSteps {
  std::vector<MeasuredStep> steps;  ///< loading, steps and evaluations, in the order of a run
  std::int64_t used_before = 0,
               used_highest = 0;  ///< Device::used_bytes: before loading, and the most seen behind a step
};

/// Runs the first steps of a run on the device, with its data and the evaluations that are due after them, and notes
/// what they held; as many as the run has where it has fewer than `num_steps`. Writes no file and gives everything
/// back. `program` and `schedule` are the settled experiment's. Throws ProgramOutOfMemory, DataError, DeviceError.
MeasuredSteps measure_steps(const Experiment& experiment, const LoadedData& data, const Program& program,
                            const RunSchedule& schedule, Device& device, std::int64_t capacity, std::int64_t num_steps);

}  // namespace trainer
