#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// Gives `changed` an optimizer with less state, with the overrides that do so and what they are; false where it has
/// none that could go.
bool lighten_optimizer(Experiment& changed, std::vector<std::string>& set, std::string& what);

}  // namespace trainer
