#pragma once

#include <cstddef>
#include <vector>

#include "tests/op_cases/op_case.h"

namespace trainer {

/// Of each kind of op at most so many of its cases, those with the most inputs' numbers first and then spread evenly
/// over the others; in their order.
std::vector<OpCase> at_most(std::size_t num_cases_per_op, std::vector<OpCase> cases);

/// What $TRAINER_CASES_PER_OP leaves of the cases: all, where it is not set. For tools under which a kernel takes a
/// thousand times as long.
std::vector<OpCase> selected_cases(std::vector<OpCase> cases);

}  // namespace trainer
