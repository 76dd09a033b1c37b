#pragma once

#include <memory>

#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// The product that `call` describes, on host memory, by the obvious loops in double. run() throws InternalError where
/// an operand is missing or given in vain, and writes over all of the workspace. Where `relu_hides_nan` its ReLU makes
/// 0 of NaN, as max(·, 0) in hardware does.
std::unique_ptr<Matmul> make_host_matmul(const MatmulCall& call, bool relu_hides_nan = false);

}  // namespace trainer::cuda
