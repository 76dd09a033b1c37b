#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Everything that is known of an experiment before data is read and memory taken.
struct CompiledExperiment {
  Experiment experiment;  ///< settled: with numbers for what it leaves open (settle_experiment.h)
  DataDescription data;
  Program program;
  RunSchedule schedule;
};

/// For a device that is here or only described; `data` is the experiment's, and `auto` is settled for `capacity`.
/// Throws ConfigError, DeviceError.
CompiledExperiment compile_experiment(const Experiment& experiment, const DataDescription& data,
                                      const DeviceModel& device, std::int64_t capacity);

/// Throws ConfigError where a batch has fewer samples than there are ranks, which nothing starts.
void check_ranks_have_samples(const Experiment& experiment);

/// The plan of its whole run.
MemoryPlan plan_memory(const CompiledExperiment& compiled, std::int64_t capacity);

/// What reports call each layer, by layer.
std::vector<std::string> layer_labels(const Program& program);

/// Layers of the model, its input and its loss, but none of a frozen network.
std::int64_t num_model_layers(const Program& program);
/// Number of the model's weights, and of those that are trained.
std::int64_t num_parameters(const Program& program);
std::int64_t num_trained_parameters(const Program& program);

}  // namespace trainer
