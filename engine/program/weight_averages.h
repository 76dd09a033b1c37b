#pragma once

#include "engine/program/schedule.h"

namespace trainer {

// Note [Averages of weights]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// With `average`, a run trains its weights as it would without, and beside each tensor that a step changes, weights and
// running statistics, keeps the average of what the steps made of it (average_weights_op, at the end of the update), as
// torch's AveragedModel with use_buffers. The average is the run's model: it is what evaluations read, what
// model.safetensors holds and predictions, exports and the next stage begin with. The weights themselves are wanted to
// train on alone, so they are saved with the optimizer's state: what knows nothing of averages finds the model where it
// always is.
//
// Until the first step that counts the average is a copy of the weights. Evaluations under mixed precision read the
// 16-bit copies, which are lent to the averages meanwhile: filled from them before (`lend_averages`), and from the
// weights again behind (`refresh`). Neither allocates anything.

/// Appends the averages to `load`, where `experiment` wants some: of all that a step on `graph` changes.
void append_averages(Program& program, Scheduler& scheduler, const Experiment& experiment, const Graph& graph);

/// Appends to a routine what brings the averages up to date.
void append_averaging(Program& program, Scheduler& scheduler, Routine& routine, Phase phase);

}  // namespace trainer
