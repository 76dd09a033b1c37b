#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/plan/search/change.h"

namespace trainer {

struct LighterOptimizer {
  std::vector<std::string> set;  ///< overrides that make it lighter
  Effect effect = Effect::no_momentum;
};

/// Gives `changed` an optimizer with less state; nothing where it has none that could go.
std::optional<LighterOptimizer> lighten_optimizer(Experiment& changed);

}  // namespace trainer
