#pragma once

#include <vector>

#include "tests/op_cases/op_case.h"

namespace trainer {

/// The gradients of the inputs of transposed convolutions, which are convolutions.
std::vector<OpCase> conv_transpose2d_backward_input_cases();

}  // namespace trainer
