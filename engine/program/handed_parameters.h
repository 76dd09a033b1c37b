#pragma once

#include "engine/config/experiment.h"
#include "engine/program/program.h"

namespace trainer {

/// Throws ConfigError, which points at the stage, where its model has other parameters than that of the stage before,
/// of which they are handed on.
void check_parameters_go_on(const Program& before, const Program& after, const StageConfig& stage);

}  // namespace trainer
