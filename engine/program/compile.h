#pragma once

#include <functional>
#include <optional>

#include "engine/device/device.h"
#include "engine/program/program.h"
#include "engine/program/recompute/recompute.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Experiment → graphs → passes → program: every routine the schedule needs, planned together. With `fronts`, searches
/// for what to compute again are made once for all budgets. `checkpointing: auto` wants a budget from
/// engine/plan/search/settle_experiment.h first; without one it is as `off`.
/// Throws ConfigError for shapes that do not fit together, and for a budget that cannot be met.
Program compile(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                RecomputeFronts* fronts = nullptr);

/// The same, but nothing where `goes_on` is false for the program as far as it stands when the micro-batches of whole
/// batches are scheduled: `load` and micro_batches[0] are then as they will be.
std::optional<Program> compile_while(const Experiment& experiment, const DataDescription& data,
                                     const DeviceModel& device, RecomputeFronts* fronts,
                                     const std::function<bool(const Program&)>& goes_on);

/// The forward pass of training on so many samples, which the list of layers is cut by (engine/program/pipeline/
/// stage_cut.h). Throws ConfigError.
Graph make_training_forward(const Experiment& experiment, const DataDescription& data, std::int64_t num_samples);

/// That of a run's largest micro-batch, by which all of it is cut.
Graph make_graph_to_cut(const Experiment& experiment, const DataDescription& data);

/// What training computes on a whole batch, before anything of it is computed again or offloaded.
struct TrainingGraph {
  Graph graph;
  std::int64_t persistent_bytes = 0;  ///< blocks held throughout, but for staging
};
TrainingGraph make_training_graph(const Experiment& experiment, const DataDescription& data, const DeviceModel& device);

}  // namespace trainer
