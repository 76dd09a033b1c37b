#pragma once

#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/field.h"

namespace trainer {

/// The keys of a term of a loss that is a sum: those of a loss, and its weight.
const std::vector<Field<LossConfig>>& loss_term_fields();

}  // namespace trainer
