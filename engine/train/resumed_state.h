#pragma once

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/program/run_schedule.h"
#include "engine/train/files/checkpoint.h"

namespace trainer {

/// `given` with the overrides that the checkpoint's run was adapted to. Throws DataError where no run is adapted to
/// them.
Experiment adapted_experiment(const Checkpoint& checkpoint, const Experiment& given, const DataDescription& data);

/// Throws DataError where the checkpoint's numbers are none that the run it is to go on as can have.
void check_resumed_state(const Checkpoint& checkpoint, const Experiment& experiment, const RunSchedule& schedule);

}  // namespace trainer
