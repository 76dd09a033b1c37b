#pragma once

#include "engine/errors.h"

namespace trainer {

/// Starts this command once for each rank, on this machine, with torchrun's variables, and waits for all of them. What
/// rank 0 exits with; where a signal ended it, or it is done and another is not, what the first of the others does. Ten
/// seconds after one has failed what is left is killed.
/// Signals that ask for an end are passed on; ranks end where this process does. Throws DeviceError where a process
/// cannot be started.
ExitCode launch_ranks(int num_ranks);

}  // namespace trainer
