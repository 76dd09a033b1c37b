#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/search/compiled_experiment.h"

namespace trainer {

// Note [Timing]
// ~~~~~~~~~~~~~
// A machine that does other things too makes some steps slower and none faster, so of repeated measurements the lower
// quartile is taken: of whole steps, and of each call. Steps are timed undisturbed; then others with a look at the
// clock around each call, which is waited for. On a device that computes beside the host a call is repeated between two
// waits, so that what the host takes to start and to wait is not counted. Nothing is learned meanwhile (the learning
// rate is 0), so that numbers stay as they are however often a call is repeated.

/// What one call of a program takes, as a part of a step.
struct CallTime {
  std::int32_t call = 0;  ///< of Program::calls
  double times = 1;       ///< runs of it in a step
  double seconds = 0;     ///< of one run
};

/// Where the time of a step of whole batches goes.
struct StepTiming {
  std::int64_t num_steps = 0;     ///< timed undisturbed
  std::int64_t num_observed = 0;  ///< timed call by call
  double step_seconds = 0;        ///< of an undisturbed step
  double data_seconds = 0;        ///< of it: waiting for the next batches and copying them
  double host_seconds = 0;        ///< of it: laying out, and what the end of a step asks of the host
  std::vector<CallTime> calls;    ///< in the order of the step

  /// The sum over `calls`.
  double op_seconds() const;
};

struct TimingOptions {
  std::int64_t num_warm_up = 2, num_steps = 10, num_observed = 5;
  double max_seconds = 0;  ///< no further steps are begun after that; 0: without bound
};

/// Runs steps of the experiment with its data on the device, and times them. Gives everything back. Throws
/// ProgramOutOfMemory, DataError, DeviceError.
StepTiming time_steps(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity,
                      const TimingOptions& options);

/// The value that a quarter of them do not exceed; `values` is not empty.
double lower_quartile(std::span<const double> values);

}  // namespace trainer
