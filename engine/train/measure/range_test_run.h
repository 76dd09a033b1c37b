#pragma once

#include <cstdint>
#include <functional>

#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/files/weight_files.h"
#include "engine/train/measure/range_test.h"
#include "engine/train/training_run.h"

namespace trainer {

/// What a range test needs beside the experiment that it is of: a step more than it takes, since behind the last one
/// there is an evaluation, no evaluation before, and no schedule. Program, memory and the order of the data stay.
Experiment with_range_test(Experiment experiment, std::int64_t num_steps);

struct RangeTestRun {
  RangeTest test;
  std::int64_t skipped_updates = 0;  ///< under a loss scale: a gradient was not finite
  double seconds = 0;
  StepMemory memory = {};  ///< the highest of loading and all steps
};

/// Trains as a run of the experiment would from its start, or from `weights` where they are not null, which
/// weights.rename and the like of the experiment are about, with the rates of the test in place of the schedule's.
/// Writes no file and gives everything back; `on_step` is told of each step. `interruption` ends it before its end.
/// `compiled` is of with_range_test(). Throws ProgramOutOfMemory, WeightsMismatch, ConfigError, DataError, DeviceError.
RangeTestRun run_range_test(const CompiledExperiment& compiled, const LoadedData& data, Device& device,
                            std::int64_t capacity, const WeightFiles* weights, const RangeTestOptions& options,
                            Interruption& interruption, const std::function<void(const RangeTest&)>& on_step = {});

}  // namespace trainer
