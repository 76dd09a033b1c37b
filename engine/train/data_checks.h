#pragma once

#include "datasets/dataset.h"

namespace trainer {

/// Refuses data from which the experiment's loss learns nothing: loss.class_weights that are 0 for every class that
/// occurs, or targets that are all ignored. Throws ConfigError with the key's place.
void check_data(const Experiment& experiment, const LoadedData& data);

/// Reads all of the data once, which decodes every image. DataError for the first sample that cannot be read, unless
/// such are skipped.
void read_every_sample(const LoadedData& data, int num_workers);

}  // namespace trainer
