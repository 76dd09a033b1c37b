#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/program/program.h"

namespace trainer {

/// What predicts with the experiment's model, for batches of `batch_size` inputs and, where `odd_batch_size` is above
/// 0, for a last one of that many: Program::prediction (Note [Predictions] in engine/graph/prediction_graph.h). Of
/// `data` the inputs alone are read. Parameters are all that is held between batches; of those that products read under
/// mixed precision there are the 16-bit ones alone. Buffers have places in one segment, which is as large as the most
/// that is held, unless memory.allocator is `caching`. Throws ConfigError where shapes disagree.
Program compile_prediction(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size,
                           std::int64_t odd_batch_size, const DeviceModel& device);

}  // namespace trainer
