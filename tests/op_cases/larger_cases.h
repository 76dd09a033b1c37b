#pragma once

#include <vector>

#include "tests/op_cases/op_case.h"

namespace trainer {

/// Every op at sizes of 1, primes, and just past a block of threads or a pack of elements, on drawn inputs. Nothing is
/// expected of them but what another device computes.
std::vector<OpCase> larger_cases();

}  // namespace trainer
