#pragma once

#include "engine/config/experiment.h"
#include "engine/config/fields/given_keys.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

struct ExperimentKeys : GivenKeys {
  bool names_warmup = false;  ///< schedule.type was "warmup", which reads as constant
};

/// Fills an experiment from a composed tree by the field tables. Reports every key that is unknown, misplaced, of the
/// wrong type, out of range or not for the chosen type.
ExperimentKeys read_experiment(const Node& root, Experiment& experiment, SourceSet& sources);

}  // namespace trainer
