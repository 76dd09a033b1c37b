#pragma once

#include <cstdint>
#include <vector>

#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/search/compiled_experiment.h"

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

/// Runs the first steps of a run on the device as the run would, with its data and the evaluations that are due after
/// them, and notes what they held; as many as the run has where it has fewer than `num_steps`. Writes no file and gives
/// everything back. Throws ProgramOutOfMemory, DataError, DeviceError, and Error where the run diverges.
MeasuredSteps measure_steps(const CompiledExperiment& compiled, const LoadedData& data, Device& device,
                            std::int64_t capacity, std::int64_t num_steps);

}  // namespace trainer
