#pragma once

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// Whether the mean of a loss depends on which targets a batch has: it weighs their classes, or ignores some of them.
/// Soft targets are counted, whatever their classes weigh, as PyTorch does.
bool depends_on_targets(const LossConfig& loss, const DataDescription& data);

/// Readers of samples beside those of the threads that read ahead: 1 where training reads the targets of each step once
/// more, for such a mean, and they follow their images through transforms or past bad samples; else 0.
int num_target_readers(const Experiment& experiment, const DataDescription& data);

}  // namespace trainer
