#pragma once

#include "engine/train/executor.h"

namespace trainer {

/// Gives each parameter and running statistic of `to` the value that the model of `from` has under its name, rounded to
/// what `to` keeps: for who predicts with what was just trained, without a file. Both have run their load; the programs
/// are of one model, and `from` may have more. Goes through 16 MiB of host memory, piece by piece. InternalError for a
/// parameter that `from` has not, or of another shape; HostOutOfMemory.
void copy_parameters(Executor& from, Executor& to);

}  // namespace trainer
