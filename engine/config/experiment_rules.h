#pragma once

#include "engine/config/experiment_reader.h"

namespace trainer {

/// Reports what no key can tell alone: keys that need or exclude one another. Rules about keys that could not be read
/// are passed over.
void check_experiment(const Experiment& experiment, const ExperimentKeys& given, SourceSet& sources);

}  // namespace trainer
