#pragma once

#include <atomic>
#include <string>

#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/train/events.h"

namespace trainer {

/// What the outside may ask of a run while it goes on; set from signal handlers.
struct Interruption {
  std::atomic<int> requests{0};  ///< 1: finish the step, checkpoint, stop
};

enum class RunStatus : std::uint8_t { done, out_of_memory, does_not_fit, diverged, interrupted };

struct TrainingOptions {
  bool resume = false;           ///< continue from the newest checkpoint under experiment.output
  std::string resume_from;       ///< or from this one
  bool accept_previous = false;  ///< a damaged newest checkpoint may be skipped
  bool overwrite = false;        ///< start anew in an output directory that holds a run
};

/// Runs the experiment on the device from start (or checkpoint) to end, emitting events. Out-of-memory, divergence
/// and interruption are results, not exceptions; after any of them everything allocated has been given back and the
/// last checkpoint is readable. Throws ConfigError, DataError, DeviceError.
RunStatus run_training(const Experiment& experiment, const LoadedData& data, Device& device,
                       const TrainingOptions& options, Interruption& interruption, EventSink& events);

}  // namespace trainer
