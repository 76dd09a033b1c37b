#pragma once

#include "tests/op_cases/op_checks.h"

namespace trainer {

/// Indices that are none of the table's give NaN and no gradient.
void check_unknown_indices(Device& device);

}  // namespace trainer
