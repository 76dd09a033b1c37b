#pragma once

#include "engine/config/experiment.h"
#include "engine/train/executor.h"

namespace trainer {

/// Loads the executor's program and puts everything at the start of training: parameters by the experiment's seed,
/// the optimizer's state cleared, the loss scale at its first value. Throws ProgramOutOfMemory.
void load_fresh_state(Executor& executor, const Experiment& experiment);

/// The same without parameters, which are to be written.
void load_cleared_state(Executor& executor, const Experiment& experiment);

/// Those of the loss, and of its parts where they are kept.
void clear_statistics(Executor& executor);

/// Brings what is made of parameters up to date behind parameters that were written from outside: their 16-bit copies,
/// and averages, which begin with them.
void follow_parameters(Executor& executor);

}  // namespace trainer
