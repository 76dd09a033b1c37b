#pragma once

#include <vector>

#include "tests/op_cases/op_case.h"

namespace trainer {

/// torch.optim.SGD with dampening 0, one element; m is the momentum buffer.
double sgd_step(double w, double g, double& m, const SgdUpdateAttributes& a, double lr, bool first);
/// torch.optim.Adam and AdamW, one element.
double adam_step(double w, double g, double& m, double& v, const AdamUpdateAttributes& a, double lr, double update);

/// One update for every combination of types that an UpdateFormat names.
std::vector<OpCase> sgd_format_cases();
std::vector<OpCase> adam_format_cases();

/// Note [8-bit moments] in double: the numbers of a moment of `count` elements, from its bytes.
Values first_moment_numbers(const Values& bytes, std::int64_t count);
Values second_moment_numbers(const Values& bytes, std::int64_t count);

}  // namespace trainer
