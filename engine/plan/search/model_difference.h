#pragma once

#include <string>
#include <vector>

#include "engine/plan/search/change.h"

namespace trainer {

/// How the second of two experiments makes the model of the first smaller.
struct ModelDifference {
  std::vector<std::string> set;  ///< overrides that do so; empty: it does not
  ChangePart part;               ///< what they do, where there are any
};

/// Reads the numbers of the model (engine/config/fields/model_numbers.h), as engine/plan/search/model_cuts.h lowers
/// them. Nothing else of the models may differ.
ModelDifference find_model_difference(const Experiment& before, const Experiment& after);

}  // namespace trainer
