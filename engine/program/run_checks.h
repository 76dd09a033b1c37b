#pragma once

#include <string>
#include <vector>

#include "engine/program/run_schedule.h"

namespace trainer {

/// Refuses what this data leaves without a meaning: early stopping without validation data, data.drop_last where no
/// batch is full. Throws ConfigError with the key's place.
void check_run(const Experiment& experiment, const DataDescription& data);

/// What a run over this data does, though it is hardly meant: a warm-up longer than the run. Each begins with the key's
/// place.
std::vector<std::string> run_warnings(const Experiment& experiment, const RunSchedule& schedule);

}  // namespace trainer
