#pragma once

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/frozen_entry.h"

namespace trainer {

/// model.groups: layers under names, from input to output.
ExperimentField groups_field();
/// freeze: what is not trained.
ExperimentField freeze_field();

/// The entries of `freeze`, or of a stage's `freeze` and `unfreeze`, which `key` names. Reports what is none.
std::vector<FrozenEntry> read_frozen_layers(const Node& node, std::string_view key, SourceSet& sources);

}  // namespace trainer
