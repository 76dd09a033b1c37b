#pragma once

#include "datasets/dataset.h"

namespace trainer {

/// Refuses data from which the experiment's loss learns nothing: loss.class_weights that are 0 for every class that
/// occurs, or targets that are all ignored. Throws ConfigError with the key's place.
void check_data(const Experiment& experiment, const LoadedData& data);

}  // namespace trainer
